// Package proxy speaks the module registry protocol over HTTP, from any
// [modproxy.Registry]: routes, errors, one log line and one set of measurements
// for each request.
//
// Invariant: nothing that a client wrote reaches the registry before it has been
// held to the clients' own grammar, and nothing that it wrote about us (Host,
// forwarding headers) reaches an answer unless the operator vouches for it. Where
// being on this machine is all that is asked, a name that is not ours is answered
// nothing.
package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// Config is how a [Handler] is set up.
type Config struct {
	// Registry answers. Its locations are paths from the root, or absolute.
	Registry modproxy.Registry
	// Providers asks about providers. Nil: nothing is asked.
	Providers Providers
	// Upstreams says which registry a request is for.
	Upstreams Upstreams
	// PublicURL is where clients see this proxy, without a trailing slash. If it
	// is empty, answers are for the host that was asked, if Known knows it, and
	// relative otherwise.
	PublicURL string
	// Known reports whether a request's host, as the client wrote it, is one that
	// this proxy is known by. Nil: none is.
	Known func(host string) bool
	// Local is that nobody is asked because nobody but who is on this machine can
	// connect. Their browser does, for any page, under any name that leads here: so
	// requests are answered only under an address, localhost, and the names of
	// PublicURL, Known and Upstreams.
	Local bool
	// Auth says who asks. Registry must then answer them only what they may read
	// (see [auth.Registry]). Nil: nobody is asked.
	Auth *auth.Authenticator
	// Operators says who may operate the proxy where Auth is nil. Nil: nobody but
	// [auth.Owner].
	Operators *auth.Authenticator
	// Limits bound what clients may ask for.
	Limits Limits
	// TrustedProxies are those whose forwarding headers count.
	TrustedProxies []netip.Prefix
	// Log gets one entry for each request. Nil: none is written.
	Log *zap.Logger
	// Metrics measures. Nil: nothing is measured.
	Metrics *Metrics
	// Ready is empty while the proxy can do its work, else what hinders it. A nil
	// Ready is always so.
	Ready func() []Hindrance
	// Mounts are answered beside the protocol. Their paths begin with /-/.
	Mounts []Mount
	// Home is what a person who opens the proxy in a browser is told; base is the
	// proxy's URL. Nil: nothing.
	Home func(base string) string
}

// Handler is the proxy's HTTP side. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	ask     http.HandlerFunc // the protocol of modules
	pass    http.HandlerFunc // that of providers
	router  *mux.Router      // everything else
	bounds  *bounds
	sending sending
}

// New makes a Handler.
func New(cfg Config) *Handler {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	h := &Handler{cfg: cfg, bounds: newBounds(cfg.Limits), router: mux.NewRouter().SkipClean(true).UseEncodedPath()}
	h.ask, h.pass = h.adapt(h.protocol), h.adapt(h.provider)
	h.router.Path("/.well-known/terraform.json").HandlerFunc(h.adapt(h.discovery))
	h.router.Path("/-/healthz").HandlerFunc(h.adapt(h.healthz))
	h.router.Path("/-/readyz").HandlerFunc(h.adapt(h.readyz))
	h.router.Path("/-/metrics").HandlerFunc(h.adapt(h.operators(h.metrics)))
	for _, m := range cfg.Mounts {
		h.mount(m)
	}
	h.router.Path("/").HandlerFunc(h.adapt(h.home))
	h.router.NotFoundHandler = h.adapt(h.nowhere)
	return h
}

// ServeHTTP answers. The protocol has paths of its own and does not go through the
// router, which copies every request twice.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		// Whether there was a Content-Length, too, net/http does not say (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	if strings.Contains(r.URL.Path, "/v1/modules/") {
		h.ask(w, r)
		return
	}
	if isProviders(r.URL.Path) {
		h.pass(w, r)
		return
	}
	h.router.ServeHTTP(w, r)
}

// handle answers a request, or says with an error why it does not; it has then
// written nothing.
type handle func(w http.ResponseWriter, r *http.Request, e *Event) error

// adapt is answer for what is only read, by whoever can connect.
func (h *Handler) adapt(f handle) http.HandlerFunc {
	return h.answer(slowTime, func(w http.ResponseWriter, r *http.Request, e *Event) error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return errMethod
		}
		return f(w, r, e)
	})
}

// answer makes an http.HandlerFunc of a handle: it writes the error, the one log
// entry and the measurements. Who takes longer than slow for slowBytes is cut off.
func (h *Handler) answer(slow time.Duration, f handle) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		e := &Event{Time: time.Now(), Client: h.clientAddress(r)}
		rec := newRecorder(w, slow)
		defer func() {
			gone := recover()
			rec.extend()
			why := rec.endedBy()
			switch {
			case why != nil:
				e.Err, gone = why, http.ErrAbortHandler
			case gone != nil && gone != http.ErrAbortHandler:
				e.Err = modproxy.Fault(gone)
			case e.Err == nil && rec.cut:
				e.Err = errSlow
			}
			e.Status, e.Bytes = rec.status, rec.bytes
			h.finish(r, e)
			if gone != nil {
				panic(http.ErrAbortHandler) // net/http ends the connection, and does not log the value
			}
		}()
		err := h.misdirected(r)
		if err == nil {
			err = f(rec, r, e)
		}
		if err != nil && ended(r.Context()) != nil {
			err = ended(r.Context())
		}
		if err != nil {
			e.Err = err
			writeError(rec, r, h.said(r, err))
		}
	}
}

// errAbsent is all that is said of what is not there, or not for whom it was asked
// by: where principals differ in what they may read, the two look the same.
var errAbsent = fmt.Errorf("%w: no such module or version, or not for you", modproxy.ErrNotFound)

// said is what a client is told of err.
func (h *Handler) said(r *http.Request, err error) error {
	var failed *modproxy.FetchFailed
	if errors.As(err, &failed) {
		ago, wait := time.Since(failed.Time).Round(time.Second), time.Until(failed.Again).Round(time.Second)
		switch {
		case wait > 0 && ago == 0:
			return fmt.Errorf("%w (to be tried again in %v)", err, wait)
		case wait > 0:
			return fmt.Errorf("%w (tried %v ago, and again in %v)", err, ago, wait)
		case ago > 0:
			return fmt.Errorf("%w (tried %v ago, and being tried again)", err, ago)
		}
	}
	if h.cfg.Auth != nil && errors.Is(err, modproxy.ErrNotFound) {
		return errAbsent
	}
	if errors.Is(err, modproxy.ErrUnauthorized) && strings.Contains(r.URL.Path, "/"+protocolPath) {
		return h.showToken(r, err)
	}
	var not *notReady
	if errors.As(err, &not) {
		return not.said()
	}
	return err
}

func (h *Handler) nowhere(http.ResponseWriter, *http.Request, *Event) error {
	return &badRequest{http.StatusNotFound, errors.New("there is nothing at this path: module registry requests have /v1/modules/ in theirs")}
}
