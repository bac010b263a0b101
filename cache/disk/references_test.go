package disk_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
)

// A record of a kind that is not known may need any blob: nothing is taken for an
// orphan.
func TestUnknownRecordsNeedTheirBlobs(t *testing.T) {
	dir := t.TempDir()
	fillMany(t, dir, 2)
	db, err := bbolt.Open(filepath.Join(dir, "index.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("v1/providers"))
		return err
	})
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, dir)
	data, digest := cachetest.Bytes(10, 99)
	if err := s.Put(t.Context(), digest, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	r := &cache.Registry{Index: s, Blobs: s, Uses: s, References: s.References}
	t.Cleanup(func() { r.Close(t.Context()) })
	if out, err := r.Tidy(t.Context(), cache.Tidy{}); err == nil || !strings.Contains(err.Error(), `"v1/providers"`) {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := r.Discard(t.Context(), vpc, "1.0.0"); err == nil {
		t.Error("a package was removed")
	}
	n := 0
	for _, err := range s.All() {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Errorf("%d blobs", n)
	}
	for kept, err := range s.Packages(modproxy.Module{}) {
		if kept.Record.Removed || err != nil {
			t.Errorf("%+v, %v", kept, err)
		}
	}
}
