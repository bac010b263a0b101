//go:build linux

package faults_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// fillUp fills the disk.
func (d *disk) fillUp() {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.mounted, "ballast"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 4
		}
	}
	if err := errors.Join(f.Sync(), os.WriteFile(filepath.Join(d.mounted, "more"), []byte("x"), 0o600)); !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatalf("the disk is not full: %v", err)
	}
}

// On a full disk modproxy starts, also after it was killed, and serves stored packages. Verbs that free space work, with or without a
// serving process.
func TestFullStart(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(*proxy)
		serves bool // while space is freed
	}{
		"ended":             {(*proxy).stop, false},
		"killed":            {(*proxy).kill, false},
		"ended and serves":  {(*proxy).stop, true},
		"killed and serves": {(*proxy).kill, true},
	} {
		if !rig.Long() && (name == "killed" || name == "ended and serves") {
			continue // half of the cases suffice
		}
		t.Run(name, func(t *testing.T) {
			d := newDisk(t, 16, "commit=5")
			r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
			r.start()
			r.ready()
			r.fill(20)
			c.end(r)
			d.fillUp()
			for range 3 { // a start may use space that the next start needs
				r.start()
				r.ready()
				for _, path := range r.paths() {
					if err := r.get(t.Context(), path); err != nil {
						t.Error(err)
					}
				}
				r.stop()
			}
			if c.serves {
				r.start()
				r.ready()
			}
			if out, err := r.command("gc", "--max-size", "1KiB").CombinedOutput(); err != nil {
				t.Fatalf("gc: %v\n%s", err, out)
			}
			if !c.serves {
				r.start()
				r.ready()
			}
			r.fill(5) // there is space again
			r.stop()
			clear(r.acks) // most of them were evicted
			if err := r.check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Without free inodes, the refusal says so, and not that the disk is full. Stored packages are served, and downloads continue after
// files were removed.
func TestNoInodes(t *testing.T) {
	d := newDisk(t, 16, "commit=5")
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	r.fill(3)
	empty := filepath.Join(d.mounted, "empty")
	err := os.Mkdir(empty, 0o700)
	for n := 0; err == nil; n++ {
		err = os.WriteFile(filepath.Join(empty, fmt.Sprint(n)), nil, 0o600)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	a := r.ask("GET", packagePath("another", "1.0.0"))
	if a.Status != http.StatusInsufficientStorage || !strings.Contains(a.Said(), "the file system has no free inode") {
		t.Errorf("a new package: %v", a)
	}
	for _, path := range r.paths() {
		if err := r.get(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(empty); err != nil {
		t.Fatal(err)
	}
	r.fill(3)
	r.stop()
	if err := r.check(); err != nil {
		t.Error(err)
	}
}
