package app

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/store/disk"
)

const (
	diskFull    = 80 // percent of the file system, at which modproxy warns
	diskRelaxed = 75 // percent, below which it warns again
	diskEvery   = time.Minute
)

const boundNote = `cache.max_size sets a bound; "modproxy config init" computes one`

// warnUnbounded logs that stored packages have no bound, at the start and each time the file system has become full, until ctx ends.
// With a bound, or if nothing can be stored, it does nothing.
func (a *App) warnUnbounded(ctx context.Context) {
	if a.config.Cache.MaxSize > 0 || a.ReadOnly() != nil {
		return
	}
	logEvent(a.log, "cache_unbounded", nil, zap.String("note", boundNote))
	watchDisk(ctx, a.disk.FileSystem, func(use disk.FileSystem) {
		logEvent(a.log, "disk_filling", nil, zap.Int("percent", use.Full()), zap.Int64("free", use.Free), zap.String("note", boundNote))
	})
}

// watchDisk calls full once each time the file system reaches diskFull, until ctx ends. It does not call full again before the file
// system had less than diskRelaxed, so that a level that varies around diskFull is reported once.
func watchDisk(ctx context.Context, fileSystem func() (disk.FileSystem, bool), full func(disk.FileSystem)) {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for warned := false; ; {
		switch use, ok := fileSystem(); {
		case !ok:
		case use.Full() >= diskFull && !warned:
			full(use)
			warned = true
		case use.Full() < diskRelaxed:
			warned = false
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
