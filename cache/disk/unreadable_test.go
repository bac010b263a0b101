package disk_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy/cache/disk"
)

// That something cannot be opened says nothing about it: it is told, if that much
// can be found out, and nothing is set aside.
func TestVerifyLeavesWhatCannotBeRead(t *testing.T) {
	for spare := range 2 {
		t.Run(fmt.Sprintf("%d more files", spare), func(t *testing.T) {
			w := newWorld(t)
			s := mustOpen(t, w.dir)
			free := exhaustFiles(t, spare)
			var found []disk.Kind
			out, err := s.Verify(t.Context(), disk.Check{Data: true, Repair: true, Sum: sumOf, Found: func(d disk.Damage) {
				found = append(found, d.Kind)
			}})
			free()
			if spare == 0 && err == nil && out.Damage == 0 {
				t.Error("nothing was told")
			}
			for _, kind := range found {
				if kind != disk.Unreadable {
					t.Errorf("found: %s", kind)
				}
			}
			if out.Repaired != 0 {
				t.Errorf("%d repaired", out.Repaired)
			}
			if found, out := verify(t, s, disk.Check{Data: true, Sum: sumOf}); found != "" || out.Packages.Packages != 2 {
				t.Errorf("afterwards: %q, %+v", found, out)
			}
		})
	}
}

// exhaustFiles leaves this process but spare files that it can open, until free.
func exhaustFiles(t *testing.T, spare int) (free func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	low := before
	low.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var open []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		open = append(open, f)
	}
	for _, f := range open[:spare] {
		f.Close()
	}
	return func() {
		for _, f := range open[spare:] {
			f.Close()
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}
}
