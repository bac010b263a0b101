package app

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/store/disk"
)

// A file system that becomes full is reported once, and again after it had room in the meantime.
func TestWatchDisk(t *testing.T) {
	levels := []int64{79, 80, 81, 100, 79, 80, 76, 80, 74, 79, -1, 90, 90, 20, 80}
	want := []int64{80, 90, 80}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var reported []int64
		ctx, cancel := context.WithCancel(t.Context())
		go watchDisk(ctx, func() (disk.FileSystem, bool) {
			minute := int(time.Since(began) / diskEvery)
			level := levels[min(minute, len(levels)-1)]
			return disk.FileSystem{Used: level, Free: 100 - level}, level >= 0
		}, func(use disk.FileSystem) { reported = append(reported, use.Used) })
		time.Sleep(time.Duration(len(levels))*diskEvery + diskEvery/2)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !slices.Equal(reported, want) {
			t.Errorf("reported at %v %%, want %v", reported, want)
		}
	})
}
