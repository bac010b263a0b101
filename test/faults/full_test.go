//go:build linux

package faults_test

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// On a full disk downloads fail, and stored packages are served. Downloads continue after space was freed, and nothing is damaged.
func TestFull(t *testing.T) {
	d := newDisk(t, 16, "commit=5")
	ballast := filepath.Join(d.mounted, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	end := r.load(4)
	full := func() bool { return r.counts()[http.StatusInsufficientStorage] > 20 }
	for started := time.Now(); !full() && time.Since(started) < 3*time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	end()
	if !full() {
		t.Fatalf("it does not fill up: %v", r.counts())
	}
	kept := r.acked()
	for path := range r.acks {
		if err := r.get(t.Context(), path); err != nil {
			t.Errorf("while the disk is full: %v", err)
		}
	}
	r.ready() // it continues to serve
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	end = r.load(1)
	started := time.Now()
	for r.acked() == kept && time.Since(started) < 2*time.Minute {
		time.Sleep(10 * time.Millisecond)
	}
	recovered := time.Since(started)
	end()
	if r.acked() == kept {
		t.Errorf("it does not recover: %v", r.counts())
	}
	r.stop()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	t.Logf("%d packages until the disk was full; %v until the next after there was room; answers by status: %v", kept, recovered, r.counts())
}

// cache.max_size keeps the disk from becoming full. Only complete provider packages are stored.
func TestBound(t *testing.T) {
	const bound = 4 << 20
	d := newDisk(t, 16, "commit=5")
	t.Setenv("MODPROXY_CACHE_MAX_SIZE", "4MiB")
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	end := r.load(4)
	enough := rounds(120, 1000)
	for started := time.Now(); r.acked() < enough && time.Since(started) < 3*time.Minute; {
		time.Sleep(10 * time.Millisecond)
	}
	end()
	statuses := r.counts()
	if r.acked() < enough || statuses[http.StatusInsufficientStorage] > 0 {
		t.Errorf("%d packages; answers by status: %v", r.acked(), statuses)
	}
	r.stop()
	if is := size(t, filepath.Join(r.data, "blobs")); is > bound || is < bound/2 {
		t.Errorf("%d bytes are kept, within %d", is, bound)
	}
	clear(r.acks) // most of them were evicted
	if err := r.check(); err != nil {
		t.Error(err)
	}
	zips := r.providersAreWhole("after evictions")
	r.output("gc", "--max-size", "2MiB")
	if err := r.check(); err != nil {
		t.Error(err)
	}
	if zips == 0 || r.providersAreWhole("after gc") == zips {
		t.Errorf("%d packages of a provider were kept, and gc has evicted none", zips)
	}
	t.Logf("answers by status: %v", statuses)
}

// size is the total size of all files below a directory, in bytes.
func size(t *testing.T, dir string) (sum int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, gone := e.Info(); gone == nil {
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
