package app

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/proxy"
)

const (
	// How long connections are accepted after the last of the fetches that ran at the signal: clients that
	// waited for one ask for its package then.
	lingerTime = 2 * time.Second
	// How long sending the answer that the proxy ends may take.
	lastWords = 500 * time.Millisecond
)

// serveUntil serves until ctx ends, and then until all requests and fetches have ended or the time of the key
// shutdown is over.
func (a *App) serveUntil(ctx context.Context, server *http.Server) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(a.listener, "", "")
		} else {
			served <- server.Serve(a.listener)
		}
	}()
	if a.socket != nil {
		go server.Serve(a.socket) // ends with the server
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	began := time.Now()
	a.log.Info("stopping", zap.String("signal", signalOf(ctx)))
	a.draining.Store(true)
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Shutdown)
	defer cancel()
	server.SetKeepAlivesEnabled(false)
	a.linger(deadline)
	if err := server.Shutdown(deadline); err != nil {
		cut(proxy.ErrShuttingDown)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close() // what is still being sent is cut: clients notice
		}
	}
	left := a.Cache.Fetching()
	if err := a.Cache.Close(deadline); err != nil {
		a.log.Warn("fetches_cut", zap.Stringers("modules", slices.Collect(maps.Keys(left))), zap.Error(err))
	}
	a.log.Info("stopped", zap.Float64("seconds", time.Since(began).Seconds()))
	return nil
}

// linger waits for the fetches that run, and then for a moment, but no longer than ctx.
func (a *App) linger(ctx context.Context) {
	running := a.Cache.Fetching()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
	if len(running) > 0 {
		select {
		case <-time.After(lingerTime):
		case <-ctx.Done():
		}
	}
}

// signalOf returns the name of the signal that has ended ctx.
func signalOf(ctx context.Context) string {
	return strings.TrimSuffix(context.Cause(ctx).Error(), " signal received")
}
