package app

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy/httpx"
)

const (
	lingerTime   = 2 * time.Second        // for clients that waited for a download to request its package
	lastWords    = 500 * time.Millisecond // to send clients the answer that the proxy is shutting down
	handOverTime = time.Second            // for requests to end before they are redirected, while no process accepts connections
	redirectTime = 3 * time.Second        // to redirect them
)

// serveUntil serves until ctx ends. Then it waits for requests and downloads, at most for the time of the key shutdown. endIdle ends the
// work that no client waits for, before the data directory is handed over.
func (a *App) serveUntil(ctx context.Context, server *http.Server, endIdle func()) error {
	requests, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	server.BaseContext = func(net.Listener) context.Context { return requests }
	if b, ok := a.listener.(*httpx.Listener); ok {
		server.ConnState = b.ConnState
	}
	served := make(chan error, 1)
	go func() { served <- a.accept(server) }()
	if a.socket != nil {
		go server.Serve(a.socket) // ends with the server
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	began := time.Now()
	logEvent(a.log, "stopping", nil, zap.String("signal", signalOf(ctx)), zap.Int("requests", a.requests.Running()))
	a.draining.Store(true)
	a.claim.End()
	a.endPrefetching()
	a.Cache.EndBackground()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Shutdown)
	defer cancel()
	server.SetKeepAlivesEnabled(false)
	var failed error
	handsOver := a.options.Listener != nil
	if handsOver {
		failed = a.handOver(deadline, cut, endIdle)
		logEvent(a.log, "handed_over", failed, zap.Float64("seconds", time.Since(began).Seconds()), zap.Int("requests", a.requests.Running()))
		waitWhile(deadline, a.isBusy)
	} else {
		a.linger(deadline)
	}
	left := 0 // requests whose answers are cut, which their clients notice
	if err := server.Shutdown(deadline); err != nil {
		cut(httpx.ErrShuttingDown)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		if server.Shutdown(last) != nil {
			left = a.requests.Running()
			server.Close()
		}
	}
	if !handsOver {
		end, _ := deadline.Deadline()
		last, cancel := context.WithDeadline(context.WithoutCancel(ctx), end.Add(lastWords))
		defer cancel()
		a.endDownloads(deadline, last)
	}
	logEvent(a.log, "stopped", nil, zap.Float64("seconds", time.Since(began).Seconds()), zap.Int("requests_cut", left))
	return failed
}

// accept serves connections with server until it is closed.
func (a *App) accept(server *http.Server) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(a.listener, "", "")
	}
	return server.Serve(a.listener)
}

// handOver closes the data directory while packages are still being sent, so that the next process can open it. Until the downloads in
// progress and the verbs of operators have ended, it answers new connections. Other requests that are not answered soon are redirected to
// the next process.
//
// It does not call [http.Server.Shutdown], which closes connections whose first request has not been read yet.
func (a *App) handOver(deadline context.Context, redirect context.CancelCauseFunc, endIdle func()) error {
	a.Cache.EndPartial()
	a.awaitDownloads(deadline)
	waitWhile(deadline, func() bool { return a.verbs.Load() > 0 })
	a.listener.Close()
	if a.socket != nil {
		a.socket.Close()
	}
	working := func() bool { return a.requests.Working() > 0 }
	waitFor(handOverTime, working)
	redirect(httpx.ErrHandedOver)
	waitFor(redirectTime, working)
	last, cancel := context.WithTimeout(context.WithoutCancel(deadline), lastWords)
	defer cancel()
	now, end := context.WithCancel(last)
	end()
	a.endDownloads(now, last)
	endIdle()
	return a.closeParts()
}

// isBusy reports whether a connection of a client is not idle.
func (a *App) isBusy() bool {
	b, ok := a.listener.(*httpx.Listener)
	return ok && b.Busy() > 0
}

// waitFor waits while busy returns true, at most for d.
func waitFor(d time.Duration, busy func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	waitWhile(ctx, busy)
}

// waitWhile waits while busy returns true, until ctx ends.
func waitWhile(ctx context.Context, busy func() bool) {
	for busy() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// countVerb returns a handler of the operator's API that counts its running requests.
func (a *App) countVerb(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		a.verbs.Add(1)
		defer a.verbs.Add(-1)
		return handle(w, r)
	}
}

// endDownloads waits for the downloads in progress until ctx ends. Then it cuts and logs them. It cuts preparations of nested sources
// first, and waits for their end until last ends.
func (a *App) endDownloads(ctx, last context.Context) {
	if err := a.nested.Close(last); err != nil { // Close has ended the preparations, but some still run
		logEvent(a.log, "preparations_left", err)
	}
	var left []string
	for v := range a.Cache.Fetching() {
		left = append(left, v.Shown())
	}
	slices.Sort(left)
	if err := a.Cache.Close(ctx); err != nil && len(left) > 0 {
		logEvent(a.log, "fetches_cut", err, zap.Strings("modules", left))
	}
}

// linger waits for the downloads in progress. If there are any, it waits for lingerTime afterwards. It returns when ctx ends.
func (a *App) linger(ctx context.Context) {
	if a.awaitDownloads(ctx) {
		moment, cancel := context.WithTimeout(ctx, lingerTime)
		defer cancel()
		<-moment.Done()
	}
}

// awaitDownloads waits for the downloads in progress, or until ctx ends. It reports whether there are any.
func (a *App) awaitDownloads(ctx context.Context) bool {
	running := a.Cache.Fetching()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	return len(running) > 0
}

// signalOf returns the name of the signal that ended ctx.
func signalOf(ctx context.Context) string {
	return strings.TrimSuffix(context.Cause(ctx).Error(), " signal received")
}
