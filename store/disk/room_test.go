package disk_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/test/rig"
)

// The free bytes are known on the systems that report them.
func TestFree(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		rig.Missing(t, "modproxy does not read the free space of %s", runtime.GOOS)
	}
	d, err := disk.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Room(1); err != nil {
		t.Error(err)
	}
	if err := d.Room(1 << 60); !errors.As(err, new(*modproxy.NoSpace)) {
		t.Errorf("an exbibyte is free: %v", err)
	}
}
