// Package proxy speaks the module and provider registry protocols and that of provider network mirrors over HTTP, from any [modproxy.Registry]: routes, errors, one log
// line and one set of measurements for each request.
//
// Invariant: nothing that a client wrote reaches the registry before it was held to the clients' own grammar, and
// nothing that it wrote about the proxy (Host, forwarding headers) reaches an answer unless the operator vouches for it.
// Where being on this machine is all that clients need, requests under a foreign name without a credential are refused.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// Config is how a [Handler] is set up. Its zero value answers nothing but health and metrics.
type Config struct {
	// Registry answers. Its locations are paths from the root, or absolute.
	Registry modproxy.Registry
	// Catalog describes modules and providers. Nil: only what the protocols ask is answered.
	Catalog modproxy.Catalog
	// Documents finds the documents that Catalog has the texts of. Nil: none is found by its ID alone.
	Documents Documents
	// Listing lists the versions that Catalog describes, as Registry does for clients that install.
	Listing Listing
	// Offline tells that the versions that Registry lists of a provider are for the platforms whose packages can be had.
	Offline bool
	// Records has the hashes of providers' packages that were fetched. Nil: they are not told.
	Records Records
	// Upstreams says which registry a request is for.
	Upstreams Upstreams
	// Others knows what upstreams offer besides. Nil: nothing.
	Others Others
	// Contact returns whom people ask who are told of an error. Nil or empty: the operator of the proxy.
	Contact func() string
	// PublicURL is where clients see the proxy, without a trailing slash. If it is empty, URLs in answers have the
	// host of the request, if that is a name of the proxy, and are relative otherwise.
	PublicURL string
	// Process is the process that serves. Nil: it has no name, no problem and no home page.
	Process Process
	// Local tells that something needs no credential because only programs on this machine can connect. A browser is
	// one, and asks for what any web page says, under any name that leads here. So requests without a credential are
	// answered only under an address, localhost, and the names of PublicURL, Process and Upstreams.
	Local bool
	// Auth identifies clients; Registry must heed them, as [auth.Registry] does. Nil: they need no credential.
	Auth *auth.Authenticator
	// Operators identifies the operators where Auth is nil. Nil: only [auth.Owner] is one.
	Operators *auth.Authenticator
	// Limits bound what clients may ask for.
	Limits Limits
	// TrustedProxies are the addresses of proxies whose forwarding headers count.
	TrustedProxies []netip.Prefix
	// Log gets one entry for each request. Nil: none is written.
	Log *zap.Logger
	// Metrics measures. Nil: what is measured is not shared.
	Metrics *Metrics
	// Mounts are answered beside the protocol. Their paths begin with /-/.
	Mounts []Mount
}

// Records says what was recorded of versions. Its error is [fs.ErrNotExist] for a version without a record.
type Records interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Documents finds documents of providers.
type Documents interface {
	// Numbered returns the versions of providers of a registry that have a document with this ID, as far as that is known,
	// whoever may read them.
	Numbered(ctx context.Context, host, id string) ([]modproxy.Ref, error)
}

// Listing lists versions, see [modproxy.Registry].
type Listing interface {
	Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
}

// Process is what a [Handler] asks the process that serves it. Its methods are called concurrently.
type Process interface {
	// HasName reports whether host, which a client wrote into a Host header, is a name of the process.
	HasName(host string) bool
	// Problems returns what keeps the process from its work.
	Problems() []Problem
	// Home returns the text for a person with a browser. base is the proxy's URL, or empty if that is not known.
	Home(base string) string
}

// Handler is the proxy's HTTP side. It is safe for concurrent use.
type Handler struct {
	cfg         Config
	modules     http.HandlerFunc
	providers   http.HandlerFunc
	router      *mux.Router // of everything else
	admission   *admission
	documents   documents
	releases    memory.Cache[modproxy.Digest, *opened] // of providers, by their digests
	rendered    memory.Cache[renderKey, *document]     // what Catalog says
	rendering   *slots.Queue                           // of what is large of it, shared by clients
	failed      memory.Cache[failed, time.Time]        // when they are sent again
	histories   http.HandlerFunc
	docs        http.HandlerFunc
	ofProviders struct{ beside, docs http.HandlerFunc }
}

// New makes a Handler.
func New(cfg Config) *Handler {
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.Operators = cmp.Or(cfg.Operators, &auth.Authenticator{})
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	h := &Handler{cfg: cfg, admission: newAdmission(cfg.Limits), router: mux.NewRouter().SkipClean(true).UseEncodedPath()}
	h.releases.Max, h.releases.Limit = maxReleases, maxReleaseBytes
	h.rendered.Limit = maxRendered
	h.rendering = slots.New(maxRendering, maxRendering, 0, maxToRender)
	h.modules = h.reading(h.serving(h.cfg.Upstreams.parse))
	h.providers = h.reading(h.serving(h.cfg.Upstreams.parseProvider))
	h.histories = h.reading(h.serving(h.cfg.Upstreams.parseHistory))
	h.docs = h.reading(h.serving(h.cfg.Upstreams.parseDocs))
	h.ofProviders.beside = h.reading(h.serving(h.cfg.Upstreams.parseBesideProviders))
	h.ofProviders.docs = h.reading(h.serving(h.cfg.Upstreams.parseProviderDocs))
	h.router.PathPrefix(mirrorPath).HandlerFunc(h.reading(h.serving(h.cfg.Upstreams.parseMirror)))
	h.router.Path(discoveryPath).HandlerFunc(h.reading(h.serveDiscovery))
	h.router.Path("/{registry}" + discoveryPath).HandlerFunc(h.reading(h.serveDiscoveryBelow))
	h.router.Path("/-/healthz").HandlerFunc(h.reading(h.serveAlive))
	h.router.Path("/-/readyz").HandlerFunc(h.reading(h.serveReady))
	h.router.Path("/-/metrics").HandlerFunc(h.reading(h.serveMetrics))
	for _, m := range cfg.Mounts {
		h.mount(m)
	}
	h.router.Path("/").HandlerFunc(h.reading(h.serveHome))
	h.router.NotFoundHandler = h.reading(h.serveOther)
	return h
}

// ServeHTTP answers a request. Those of the registry protocols do not go through the router, which copies them twice.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		// net/http does not say whether there was a Content-Length, too (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	if answer := h.protocol(r.URL.Path); answer != nil {
		answer(w, r)
		return
	}
	h.router.ServeHTTP(w, r)
}

// protocol returns what answers a path of a registry protocol, and nil for any other.
func (h *Handler) protocol(path string) http.HandlerFunc {
	switch {
	case strings.Contains(path, "/"+modulesPath), strings.HasSuffix(path, "/v1/modules"):
		return h.modules
	case strings.Contains(path, "/"+historyPath):
		return h.histories
	case isBesideProviders(path):
		return h.ofProviders.beside
	case strings.HasPrefix(path, docsPath):
		return h.docs
	case strings.HasPrefix(path, providerDocsPath):
		return h.ofProviders.docs
	case strings.Contains(path, "/"+providersPath):
		return h.providers
	}
	return nil
}

// handler answers a request, and completes the event. If it returns an error, it has written nothing.
type handler func(w *response, r *http.Request, e *Event) error

// reading returns f for GET and HEAD.
func (h *Handler) reading(f handler) http.HandlerFunc {
	return h.answering(pieceTime, func(w *response, r *http.Request, e *Event) error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return errMethod
		}
		return f(w, r, e)
	})
}

// answering returns f with its error answered, each request logged and measured, and clients slower than limit cut off.
func (h *Handler) answering(limit time.Duration, f handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		both := &struct {
			response
			Event
		}{
			response{ResponseWriter: w, ctx: r.Context(), control: *http.NewResponseController(w), limit: limit},
			Event{Time: time.Now(), Client: h.clientAddress(r)},
		}
		res, e := &both.response, &both.Event
		defer func() { h.finish(res, r, e, recover()) }()
		w.Header()["X-Content-Type-Options"] = noSniff
		err := h.checkName(r, both.Event.Time)
		if err == nil {
			err = f(res, r, e)
		}
		if err != nil {
			if ended := endOf(r.Context()); ended != nil {
				err = ended
			}
			if e.Err == nil {
				e.Err = err
			}
			h.writeError(res, r, e, err)
		}
	}
}

// finish records the request with what became of its answer. panicked is what the handler has panicked with.
func (h *Handler) finish(w *response, r *http.Request, e *Event, panicked any) {
	switch why := w.extend(); {
	case why != nil:
		e.Err, panicked = why, http.ErrAbortHandler
	case panicked != nil && panicked != http.ErrAbortHandler:
		e.Err = modproxy.Fault(panicked)
	case e.Err == nil && errors.Is(w.failed, os.ErrDeadlineExceeded):
		e.Err = errSlow
	}
	e.Status, e.Bytes = w.status, w.bytes
	h.record(r, e)
	if panicked != nil {
		panic(http.ErrAbortHandler) // net/http ends the connection, and does not log the value
	}
}
