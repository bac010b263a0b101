// Package httpx sends answers over HTTP: deadlines, bounds, errors with their reasons, log lines and measurements.
//
//	p := &httpx.Responder{Log: log, Metrics: httpx.NewMetrics(factory)}
//	http.Handle("/x", p.Handle(httpx.PieceTime, func(w *httpx.Response, r *http.Request, e *httpx.Event) error {
//		e.Kind = "x"
//		return w.WriteJSON(x)
//	}))
//
// Invariants: every request has one line in the log and is counted once, also if its handler panics. An error that a handler
// returns becomes an answer with the status that docs/reference/errors.md specifies and a text that says what to do next, in the
// place that the client prints. Neither answers nor the log have a token, or a control character. A client that takes its
// answer too slowly is cut off; it holds back nothing but its own answer. If an answer ends early, its connection is closed, so that the
// client does not take it for complete.
//
// A request passes these steps: Responder.Check, the [Handler], and for an error Responder.Explain, which returns the error for the
// client. The log has the error of the Handler. [Admission] bounds the requests of clients; a Handler calls it itself.
//
// The package does by hand what net/http does otherwise, for these reasons. PERFORMANCE.md has the measurements:
//
//   - [Response] writes pieces of 64 KiB with a deadline for each ([PieceTime]): a client on a slow line gets all of a large
//     package, and a client that stops reading is cut off after a minute. One deadline for the answer cannot do both.
//   - After each piece other goroutines run (runtime.Gosched): a write to a client that takes everything at once never waits,
//     and would keep the processor for 10 ms, as long as 500 small requests take.
//   - The connections of a [Listener] hold a header back until the beginning of its answer follows: one system call and one TCP
//     segment instead of two. They set a deadline in the system only if it is earlier than the present one: net/http sets
//     several for each request.
//   - [Response.ReadFrom] hands parts of files to the system: the process copies nothing of a large package.
//   - The reason phrase of an error has its text: Terraform and OpenTofu print nothing else of an error about versions. It
//     costs the connection, which is taken from net/http and closed.
//   - Terraform and OpenTofu repeat a request for a location after a 5xx. They print the body of a 4xx only, and the reason phrase
//     of a 5xx may be lost in HTTP/2. The answer to the repeated request is therefore a 424, whose body they print.
//   - [LogEncoder] writes the fields of a request at once.
//   - [Metrics] finds the counters of an answer by kind and status, without formatting labels.
//   - A [Listener] closes the connection that was idle for longest when another client has no place: clients between two
//     requests keep no client waiting.
//
// The statuses and texts are specified in docs/reference/errors.md, the log in docs/reference/log-events.md.
package httpx

import (
	"errors"
	"net/http"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
)

// A Handler answers a request, and completes the event. It must not return an error after it has written a part of the answer,
// because the [Responder] then writes the answer for the error. It panics with [http.ErrAbortHandler] to end such an answer.
type Handler func(w *Response, r *http.Request, e *Event) error

// A Responder turns a [Handler] into one of net/http: it answers the errors of the Handler, logs and measures each request, and
// cuts off slow clients. The zero value works, without a log and measurements. Its fields are not changed while it is used. It
// is safe for concurrent use.
type Responder struct {
	// Log gets one entry for each request. Nil: no entry is written.
	Log *zap.Logger
	// Metrics measures. Nil: nothing is measured.
	Metrics *Metrics
	// Contact returns whom developers ask about an error. Nil or empty: the operator of the proxy.
	Contact func() string
	// ClientAddress returns the address that a request came from. Nil: it is not known.
	ClientAddress func(r *http.Request) string
	// Check is called before the Handler. If it returns an error, the Handler is not called, and the client receives the error. Nil:
	// every request reaches its Handler.
	Check func(r *http.Request, now time.Time) error
	// Requests counts the requests. Nil: nothing is counted.
	Requests *Requests
	// Explain returns the error that the client receives instead of err, the error of Check or of the Handler. It does not change
	// the log. Nil: err itself.
	Explain func(r *http.Request, err error) error

	failed memory.Cache[failed, time.Time] // when clients send these requests again
}

// Handle returns f as a handler of net/http. A client must take each piece of its answer within limit; 0 means that it may take any time.
func (p *Responder) Handle(limit time.Duration, f Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		both := &struct {
			Response
			Event
		}{
			Response{ResponseWriter: w, ctx: r.Context(), control: *http.NewResponseController(w), limit: limit, requests: p.Requests},
			Event{Time: time.Now()},
		}
		res, e := &both.Response, &both.Event
		p.Requests.begin()
		if p.ClientAddress != nil {
			e.Client = p.ClientAddress(r)
		}
		defer func() { p.finish(res, r, e, recover()) }()
		w.Header()["X-Content-Type-Options"] = noSniff
		err := EndOf(r.Context()) // of a request that came too late
		if err == nil && p.Check != nil {
			err = p.Check(r, e.Time)
		}
		if err == nil {
			err = f(res, r, e)
		}
		if err != nil {
			if ended := EndOf(r.Context()); ended != nil {
				err = ended
			}
			if err == ErrHandedOver && res.redirect(r) {
				return
			}
			if e.Err == nil {
				e.Err = err
			}
			p.writeError(res, r, e, err)
		}
	}
}

// finish records the request with the outcome of its answer. panicked is the value that the handler has panicked with.
func (p *Responder) finish(w *Response, r *http.Request, e *Event, panicked any) {
	defer p.Requests.end(w.onlySends)
	switch why := w.extend(); {
	case why != nil:
		e.Err, panicked = why, http.ErrAbortHandler
	case panicked != nil && panicked != http.ErrAbortHandler:
		e.Err = modproxy.Fault(panicked)
	case e.Err == nil && errors.Is(w.failed, os.ErrDeadlineExceeded):
		e.Err = errSlow
	}
	e.Status, e.Bytes = w.status, w.bytes
	p.record(r, e)
	if panicked != nil {
		panic(http.ErrAbortHandler) // net/http ends the connection, and does not log the value
	}
}

// record measures and logs the request.
func (p *Responder) record(r *http.Request, e *Event) {
	took := time.Since(e.Time)
	p.Metrics.request(e, took)
	if p.Log == nil {
		return
	}
	if entry := p.Log.Check(e.level(), "request"); entry != nil {
		entry.Write(zap.Inline(&line{e, r, took}))
	}
}
