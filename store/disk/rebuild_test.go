package disk_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// keeper makes a record for each blob, with the digest as its key.
type keeper struct{}

func (keeper) Verify(context.Context, store.Record) ([]int64, error) { return nil, nil }

func (keeper) VerifyData(_ context.Context, r store.Record, d modproxy.Digest, blob io.Reader) error {
	if data, err := io.ReadAll(blob); err != nil || string(r.Value) != fmt.Sprint(len(data)) {
		return fmt.Errorf("%d bytes, want %s: %w", len(data), r.Value, err)
	}
	return nil
}

func (keeper) Rebuild(context.Context) (store.Rebuilder, error) { return rebuild, nil }

func rebuild(_ context.Context, d modproxy.Digest, size int64, _ io.Reader) ([]store.Record, error) {
	return []store.Record{{
		Ref: store.Ref{Kind: "thing", Key: d.String()}, Value: fmt.Append(nil, size), Needs: []modproxy.Digest{d},
	}}, nil
}

func storeOver(d *disk.Directory) *store.Store {
	return store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d, Kinds: map[store.Kind]store.Codec{"thing": keeper{}}})
}

// A lost index is rebuilt from the blobs, and a damaged blob is quarantined.
func TestRebuild(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, dir)
	var digests []modproxy.Digest
	for i := range 20 {
		data, digest := storetest.Bytes(100*i, byte(i))
		must(t, d.Blobs().Put(t.Context(), digest, bytes.NewReader(data)))
		digests = append(digests, digest)
	}
	name := blobName(d, digests[7])
	must(t, d.Close(), os.Remove(filepath.Join(dir, "index.db")), os.Chmod(name, 0o600), overwrite(name, 50, "x"))
	if d, err := disk.Open(t.Context(), dir); err == nil {
		d.Close()
		t.Fatal("it was opened without its index")
	}
	r, err := disk.Renew(t.Context(), dir)
	must(t, err)
	out, err := storeOver(r.Directory).Rebuild(t.Context(), store.Check{})
	if err != nil || out.Records != 19 || out.Kept.Blobs != 19 || out.Damage != 1 || out.Orphans.Blobs != 0 {
		t.Errorf("Rebuild = %+v, %v", out, err)
	}
	_, err = r.Finish()
	must(t, err, r.Close())
	d = mustOpen(t, dir)
	out, err = storeOver(d).Verify(t.Context(), store.Check{Data: true, Found: func(d store.Damage) { t.Errorf("%+v", d) }})
	if err != nil || out.Records != 19 || out.Kept.Blobs != 19 {
		t.Errorf("Verify = %+v, %v", out, err)
	}
	if aside, err := d.Quarantined(t.Context(), 0); aside.Blobs != 1 || err != nil {
		t.Errorf("Aside = %+v, %v", aside, err)
	}
}
