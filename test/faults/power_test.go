//go:build linux

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"golang.org/x/sys/unix"
)

// disk is an ext4 file system on a loop device.
type disk struct {
	t                      *testing.T
	image, mounted, option string
}

func newDisk(t *testing.T, megabytes int64, option string) *disk {
	t.Helper()
	d := &disk{t, filepath.Join(os.TempDir(), fmt.Sprintf("%d.img", rand.Uint64())), t.TempDir(), option}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(megabytes << 20); err != nil {
		t.Fatal(err)
	}
	f.Close()
	d.run("mkfs.ext4", "-q", d.image)
	d.mount()
	t.Cleanup(func() {
		exec.Command("umount", d.mounted).Run() // if it is mounted
		os.Remove(d.image)
	})
	return d
}

func (d *disk) run(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func (d *disk) mount() {
	d.t.Helper()
	d.run("mount", "-o", "loop,"+d.option, d.image, d.mounted)
}

// cut cuts the power: no write reaches the disk any more, not even the journal.
func (d *disk) cut() {
	d.t.Helper()
	const (
		shutdown   = 0x8004587d // FS_IOC_SHUTDOWN, _IOR('X', 125, __u32), of linux/fs.h
		noLogFlush = 2
	)
	f, err := os.Open(d.mounted)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, noLogFlush); err != nil {
		d.t.Fatalf("power cut: %v", err)
	}
}

// restore restores the power: the journal is replayed.
func (d *disk) restore() {
	d.t.Helper()
	for range 100 { // files of killed programs are closed a moment later
		if exec.Command("umount", d.mounted).Run() == nil {
			d.mount()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	d.t.Fatal("the file system stays busy")
}

// options set how long the journal may delay writes that are not flushed, and whether contents precede names.
var options = []string{
	"commit=1,data=ordered", "commit=5,data=ordered", "commit=1000,data=ordered",
	"commit=1,data=writeback", "commit=5,data=writeback", "commit=1000,data=writeback",
}

// cutPower runs a program under load on a disk, and cuts the power. It returns the damage found afterwards, or nil.
func (r *proxy) cutPower(d *disk) error {
	r.t.Helper()
	end := r.load(8)
	r.start()
	r.ready()
	before := r.acked()
	for started := time.Now(); r.acked() == before && time.Since(started) < 2*time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if r.acked() == before {
		r.t.Error("no package was acknowledged: the load is none")
	}
	time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
	d.cut()
	r.kill()
	end()
	d.restore()
	return r.check()
}

// The power fails at any moment.
func TestPowerCut(t *testing.T) {
	n, acked := rounds(5, 102), 0
	for i, option := range options {
		share := n / len(options)
		if i < n%len(options) {
			share++
		}
		if share == 0 {
			continue
		}
		d := newDisk(t, 512, option)
		r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
		for round := range share {
			if err := r.cutPower(d); err != nil {
				t.Fatalf("%s, round %d: %v", option, round+1, err)
			}
		}
		r.start("--offline")
		r.ready()
		for path := range r.acks {
			if err := r.get(t.Context(), path); err != nil {
				t.Error(err)
			}
		}
		r.stop()
		r.residue()
		acked += r.acked()
		d.run("umount", d.mounted)
	}
	t.Logf("%d power cuts, %d packages acknowledged and there", n, acked)
}

// A program that omits a flush is detected. Otherwise the rig proves nothing.
func TestPowerCutFindsWhoDoesNotFlush(t *testing.T) {
	for name, changes := range map[string]map[string][2]string{
		"everything": {"internal/durable/durable.go": {"sync = (*os.File).Sync", "sync = func(*os.File) error { return nil }"}},
		"packages":   {"store/disk/blobs.go": {"x.d.disk.WriteTemp(", "(durable.Disk{Sync: func(*os.File) error { return nil }}).WriteTemp("}},
		"index":      {"store/disk/bolt.go": {"bbolt.Options{ReadOnly: d.readOnly != nil}", "bbolt.Options{ReadOnly: d.readOnly != nil, NoSync: true}"}},
	} {
		if !rig.Long() && name != "packages" {
			continue // building each one takes most of the time
		}
		t.Run(name, func(t *testing.T) {
			program := filepath.Join(os.TempDir(), "mutant-"+name)
			if err := rig.Build(t.Context(), program, changes); err != nil {
				t.Fatal(err)
			}
			d := newDisk(t, 512, "commit=1000,data=writeback")
			r := newProxy(t, with{program: program, data: filepath.Join(d.mounted, "data")})
			for round := range 5 {
				if err := r.cutPower(d); err != nil {
					t.Logf("found in round %d: %.300s", round+1, err)
					return
				}
			}
			t.Error("it was not found out")
		})
	}
}
