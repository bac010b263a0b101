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
	lingerTime   = 2 * time.Second        // after downloads have ended: their clients request the packages
	lastWords    = 500 * time.Millisecond // for clients to receive the answer that the proxy is shutting down
	handOverTime = time.Second            // for requests to end before they are redirected; no process accepts connections meanwhile
	redirectTime = 3 * time.Second        // for the redirects of these requests
)

// serveUntil serves until ctx ends. Then it waits for requests and downloads, at most for the time of the key shutdown. Before it hands over the
// data directory, it calls endIdle, which ends work without a waiting client. The error is that of the server, or of closing the data
// directory.
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
		go server.Serve(a.socket) // returns when the server is closed
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
	left := 0 // number of requests whose answers are cut; their clients notice the missing bytes
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

// accept serves connections of clients until the server is closed.
func (a *App) accept(server *http.Server) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(a.listener, "", "")
	}
	return server.Serve(a.listener)
}

// handOver closes the data directory while modproxy still sends packages, so that the next process can open it. It accepts connections until
// the downloads in progress and the verbs of operators have ended. Then it cancels requests that are not answered within handOverTime with
// redirect; their clients are redirected to the next process.
//
// handOver does not call [http.Server.Shutdown], which would close connections whose first request was not read yet.
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

// countVerb returns handle as a handler that counts its running requests in a.verbs.
func (a *App) countVerb(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		a.verbs.Add(1)
		defer a.verbs.Add(-1)
		return handle(w, r)
	}
}

// endDownloads ends preparations of nested sources, and waits for them until last ends. Then it waits for the downloads in progress until ctx
// ends, and cuts and logs the remaining ones.
func (a *App) endDownloads(ctx, last context.Context) {
	if err := a.nested.Close(last); err != nil { // some preparations still run
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

// linger waits for the downloads in progress. If there were any, it then waits for lingerTime. It returns early if ctx ends.
func (a *App) linger(ctx context.Context) {
	if a.awaitDownloads(ctx) {
		moment, cancel := context.WithTimeout(ctx, lingerTime)
		defer cancel()
		<-moment.Done()
	}
}

// awaitDownloads waits for the downloads in progress, or until ctx ends. It reports whether there were any.
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
