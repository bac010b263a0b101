package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
)

// onDisk is the bytes of all files below a directory.
func onDisk(t *testing.T, dir string) (sum int64) {
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			info, gone := e.Info()
			if gone == nil {
				sum += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return sum
}

// weighed knows how many bytes are there, or on their way.
type weighed struct {
	*disk.Store
	size      int64 // of every blob
	sum, most atomic.Int64
}

func (b *weighed) Put(ctx context.Context, d modproxy.Digest, r io.Reader) error {
	if _, err := b.Stat(d); err == nil {
		return b.Store.Put(ctx, d, r)
	}
	for sum := b.sum.Add(b.size); ; {
		most := b.most.Load()
		if sum <= most || b.most.CompareAndSwap(most, sum) {
			break
		}
	}
	err := b.Store.Put(ctx, d, r)
	if err != nil {
		b.sum.Add(-b.size)
	}
	return err
}

func (b *weighed) Remove(d modproxy.Digest) error {
	err := b.Store.Remove(d)
	if err == nil {
		b.sum.Add(-b.size)
	}
	return err
}

// Readers, fetches, evictions and whoever tidies up are at work at once, on a
// disk: what is read is right, and the bound holds for what is there or on its
// way at any time.
func TestEvictionUnderLoad(t *testing.T) {
	const bound, size, versions = 100_000, 10_000, 30
	dir := t.TempDir()
	store, err := disk.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	n := &sized{next: &next{}}
	blobs := &weighed{Store: store, size: size}
	r := &cache.Registry{Next: n, Index: store, Blobs: blobs, Uses: store, MaxSize: bound, Memory: -1}
	defer mustClose(t, r)
	end := time.Now().Add(time.Second)
	var read, full atomic.Int64
	var group sync.WaitGroup
	for worker := range 6 {
		random := rand.New(rand.NewPCG(uint64(worker), 1))
		group.Go(func() {
			for time.Now().Before(end) {
				version := fmt.Sprintf("%d.%d.0", size, random.IntN(versions))
				p, err := r.Package(t.Context(), vpc.At(version))
				var noSpace *modproxy.NoSpace
				if errors.As(err, &noSpace) {
					full.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", version, err)
					continue
				}
				data, err := io.ReadAll(p)
				p.Close()
				if len(data) != size || !bytes.HasSuffix(data, []byte(version)) || err != nil {
					t.Errorf("%s: %d bytes, %v", version, len(data), err)
				}
				read.Add(1)
			}
		})
	}
	group.Go(func() {
		for time.Now().Before(end) {
			if _, err := r.Tidy(t.Context(), cache.Tidy{MaxSize: bound / 2}); err != nil {
				t.Error(err)
			}
			r.Discard(t.Context(), vpc, fmt.Sprintf("%d.%d.0", size, 1)) // it may be fetched just now, or never have been
			time.Sleep(10 * time.Millisecond)
		}
	})
	group.Wait()
	if most := blobs.most.Load(); read.Load() == 0 || most > bound || most < bound/2 {
		t.Errorf("%d were read, and the most that was there is %d bytes of %d", read.Load(), most, bound)
	}
	t.Logf("%d read, %d found no room", read.Load(), full.Load())
	mustClose(t, r)
	kept, reserved := r.Usage()
	if is := onDisk(t, filepath.Join(dir, "blobs")); is != kept || reserved != 0 {
		t.Errorf("%d bytes are there; kept %d, reserved %d", is, kept, reserved)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "quarantine")); len(left) > 0 || err != nil {
		t.Errorf("set aside: %v, %v", left, err)
	}
	out, err := store.Verify(t.Context(), disk.Check{Data: true, Found: func(d disk.Damage) { t.Errorf("%+v", d) }})
	if err != nil || out.Packages.Bytes != kept {
		t.Errorf("%+v, %v", out, err)
	}
}
