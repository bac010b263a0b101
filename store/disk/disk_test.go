package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

func mustOpen(t testing.TB, dir string) *disk.Directory {
	t.Helper()
	d, err := disk.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// blobName returns the file name of a blob.
func blobName(d *disk.Directory, digest modproxy.Digest) string {
	hex := digest.String()
	return d.Path(filepath.FromSlash("blobs/v1/sha256"), hex[:2], hex)
}

func TestDirectory(t *testing.T) {
	storetest.Run(t, func(t *testing.T, n int) []storetest.Handle {
		d := mustOpen(t, t.TempDir())
		handles := make([]storetest.Handle, n)
		for i := range handles {
			handles[i] = storetest.Handle{
				Records: d.Records(), Blobs: d.Blobs(), Quarantine: d, Damage: d.Damage,
				Lose: func(t *testing.T, digest modproxy.Digest) { must(t, os.Remove(blobName(d, digest))) },
			}
		}
		return handles
	})
}
