package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/proxy"
)

const (
	// How long after the last fetch that ran when the end was asked for connections are
	// still accepted: who waited for it asks for its package then.
	lingerTime = 2 * time.Second
	// How long those who are told that the proxy ends may take to hear it.
	lastWords = 500 * time.Millisecond
)

// serveUntil serves until ctx ends, and then until nothing is under way or grace is over.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, grace time.Duration, stack *App) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server.BaseContext = func(net.Listener) context.Context { return requests }
	served := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			served <- server.ServeTLS(listener, "", "")
		} else {
			served <- server.Serve(listener)
		}
	}()
	if stack.options.Socket != nil {
		go server.Serve(stack.options.Socket) // ends with the server
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	began := time.Now()
	stack.log.Info(idStopping, zap.String(fieldSignal, signalOf(ctx)))
	stack.draining.Store(true)
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	server.SetKeepAlivesEnabled(false)
	stack.linger(deadline)
	if err := server.Shutdown(deadline); err != nil {
		cut(proxy.ErrEnding)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if server.Shutdown(last) != nil {
			server.Close() // what is still being sent is cut: clients notice
		}
	}
	stack.drain(deadline)
	stack.log.Info(idStopped, zap.Float64(fieldSeconds, time.Since(began).Seconds()))
	return nil
}

// linger waits for the fetches that run, and then for a moment, but no longer than ctx.
func (s *App) linger(ctx context.Context) {
	running := s.Cache.Fetching()
	if len(running) == 0 {
		return
	}
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
	select {
	case <-time.After(lingerTime):
	case <-ctx.Done():
	}
}

// The messages and fields of the log about the process.
const (
	idStarted  = "started"
	idStopping = "stopping"
	idStopped  = "stopped"

	fieldVersion = "version"
	fieldListen  = "listen"
	fieldData    = "data"
	fieldConfig  = "config"
	fieldOffline = "offline"
	fieldAuth    = "auth"
	fieldSignal  = "signal"
	fieldSeconds = "seconds"
)

func (s *App) logStarted() {
	s.log.Info(idStarted,
		zap.String(fieldVersion, s.options.Version), zap.String(fieldListen, s.url), zap.String(fieldData, s.config.Data),
		zap.String(fieldConfig, s.options.ConfigFile), zap.Bool(fieldOffline, s.config.Offline), zap.Bool(fieldAuth, s.config.RequiresToken()))
}

// signalOf is the signal that has ended ctx.
func signalOf(ctx context.Context) string {
	return strings.TrimSuffix(context.Cause(ctx).Error(), " signal received")
}

// TokensUnprotected reports whether clients show their tokens unencrypted, as far as
// is known.
func (s *App) TokensUnprotected() bool { return unprotected(s.config, s.listener.Addr()) }

func unprotected(c *config.Config, listening net.Addr) bool {
	tcp, ok := listening.(*net.TCPAddr)
	return ok && c.RequiresToken() && !tcp.IP.IsLoopback() && c.TLS.CertFile == "" && !strings.HasPrefix(c.PublicURL, "https://")
}
