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
	"net/http"
	"net/netip"

	"github.com/gorilla/mux"
	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/protocol"
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
	Upstreams protocol.Upstreams
	// OtherServices knows what upstreams offer besides. Nil: nothing.
	OtherServices OtherServices
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
	Limits httpx.Limits
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
	cfg       Config
	responder *httpx.Responder
	protocols http.HandlerFunc // what [protocol.Covers]
	router    *mux.Router      // of everything else
	admission *httpx.Admission
	documents *httpx.Documents
	releases  *releases                                // of providers
	rendered  memory.Cache[renderKey, *httpx.Document] // what Catalog says
}

// New makes a Handler.
func New(cfg Config) *Handler {
	cfg.Operators = cmp.Or(cfg.Operators, &auth.Authenticator{})
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	h := &Handler{
		cfg: cfg, admission: httpx.NewAdmission(cfg.Limits), documents: httpx.NewDocuments(), releases: newReleases(),
		router: mux.NewRouter().SkipClean(true).UseEncodedPath(),
	}
	h.responder = &httpx.Responder{
		Log: cfg.Log, Metrics: cfg.Metrics.requests, Contact: cfg.Contact,
		ClientAddress: h.clientAddress, Check: h.checkName, Explain: h.explain,
	}
	h.rendered.Limit = maxRendered
	h.protocols = h.getOnly(h.serve)
	h.router.Path(protocol.DiscoveryPath).HandlerFunc(h.getOnly(h.serveDiscovery))
	h.router.Path("/{registry}" + protocol.DiscoveryPath).HandlerFunc(h.getOnly(h.serveDiscoveryBelow))
	h.router.Path("/-/healthz").HandlerFunc(h.getOnly(h.serveAlive))
	h.router.Path("/-/readyz").HandlerFunc(h.getOnly(h.serveReady))
	h.router.Path("/-/metrics").HandlerFunc(h.getOnly(h.serveMetrics))
	for _, m := range cfg.Mounts {
		h.mount(m)
	}
	h.router.Path("/").HandlerFunc(h.getOnly(h.serveHome))
	h.router.NotFoundHandler = h.getOnly(h.serveOther)
	return h
}

// ServeHTTP answers a request. Those of the registry protocols do not go through the router, which copies them twice.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) > 0 {
		// net/http does not say whether there was a Content-Length, too (RFC 9112, 6.1).
		w.Header().Set("Connection", "close")
	}
	if protocol.Covers(r.URL.Path) {
		h.protocols(w, r)
		return
	}
	h.router.ServeHTTP(w, r)
}

// getOnly returns f for GET and HEAD.
func (h *Handler) getOnly(f httpx.Handler) http.HandlerFunc {
	return h.responder.Handle(httpx.PieceTime, func(w *httpx.Response, r *http.Request, e *httpx.Event) error {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			return errMethod
		}
		return f(w, r, e)
	})
}
