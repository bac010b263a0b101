package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"go.uber.org/zap"
)

// hangups are the SIGHUPs that the process gets from now on; none of them ends it.
// stop lets the next one do so again.
func hangups() (came <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1) // one that comes while another is followed is not lost
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// followHangups reloads for each SIGHUP until ctx ends.
func (s *App) followHangups(ctx context.Context, came <-chan os.Signal) {
	for {
		select {
		case <-came:
		case <-ctx.Done():
			return
		}
		switch what, err := s.reload(); {
		case err != nil:
			s.log.Error("reload_failed", zap.Error(err))
		case len(what) == 0:
			s.log.Warn("reloaded", zap.Strings("what", what), zap.String("note", "there is nothing to reload without TLS; the configuration is read at a start only"))
		default:
			s.log.Info("reloaded", zap.Strings("what", what))
		}
	}
}

// reload reads anew what can change while modproxy serves, and is what it has read,
// by the key of the configuration. On an error what was read before goes on to
// count. The rest of the configuration needs a restart; tokens and keys are followed
// without being told.
func (s *App) reload() (what []string, err error) {
	what = []string{}
	if s.tls != nil {
		if err := s.tls.reload(); err != nil {
			return nil, err
		}
		what = append(what, "tls")
	}
	return what, nil
}
