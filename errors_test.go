package modproxy_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestNoSpaceSaysWhatToDo(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("everything is pinned"), "no space: everything is pinned"},
		{&fs.PathError{Op: "open", Path: "data", Err: syscall.EROFS}, "open data: read-only file system"},
		{&fs.PathError{Op: "write", Path: "data/tmp/1", Err: syscall.ENOSPC}, `the disk is full: write data/tmp/1: no space left on device; "modproxy gc --max-size" or "modproxy rm" makes room`},
	} {
		if got := (&modproxy.NoSpace{Err: c.err}).Error(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}
