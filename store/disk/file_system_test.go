package disk_test

import (
	"testing"

	"github.com/modproxy/modproxy/store/disk"
)

// The share of a file system in use is rounded up, as df does, and bytes that are reserved for root count neither way.
func TestFull(t *testing.T) {
	for use, want := range map[disk.FileSystem]int{
		{}: 0, {Free: 100}: 0, {Used: 100}: 100, {Free: 1, Used: 4}: 80, {Free: 999, Used: 1}: 1, {Free: 21, Used: 79}: 79, {Free: 201, Used: 799}: 80,
		{Free: 1 << 50, Used: 3 << 50}: 75,
	} {
		if got := use.Full(); got != want {
			t.Errorf("%+v is %d %% full, want %d", use, got, want)
		}
	}
	if use, ok := disk.FileSystemOf(t.TempDir()); ok && use.Used+use.Free <= 0 {
		t.Errorf("%+v", use)
	}
	if _, ok := disk.FileSystemOf("/nowhere/at/all"); ok {
		t.Error("a directory that does not exist has a file system")
	}
}
