// Package proxy answers requests of the registry protocols, from any [modproxy.Registry].
//
//	h := proxy.New(proxy.Config{Registry: registry, Upstreams: protocol.Upstreams{Default: "registry.example.com"}})
//	http.ListenAndServe(address, h)
//
// Invariants: package protocol checks every address and version by the clients' own grammar before it reaches the registry. URLs in
// answers contain a Host header only if it is a name of the proxy in the configuration, and a forwarding header only if it comes
// from one of Config.TrustedProxies. If Config.Local is set, requests under a foreign name without a credential are refused.
//
// A Handler identifies clients, and decides about packages and other services itself. It does not decide which modules a client may
// see: with Config.Auth, the registry and the catalog must do that. See Config.Auth.
//
// [Metrics] has the metrics of the whole program, because this package serves them. The observers in app/log.go count most of them;
// package httpx counts the answers.
//
// [protocol.Endpoints] and [Endpoints] list the paths; docs/reference/http.md is made from them. Package httpx specifies how
// answers are sent. docs/reference/errors.md has the statuses and the texts that clients print.
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

// Config has the parts and settings of a [Handler]. New of the zero Config returns a Handler that answers health and metrics only.
type Config struct {
	// Registry answers the protocols. Its locations are paths from the root, which the Handler completes, or absolute URLs.
	Registry modproxy.Registry
	// Catalog describes modules and providers. Nil: descriptions are answered with 404.
	Catalog modproxy.Catalog
	// Documents finds the versions of documents of Catalog by ID. Nil: requests that name only an ID are answered with 404.
	Documents Documents
	// Listing lists the versions for requests that Catalog answers. It must list what Registry lists for the same client. It may
	// be another stack of layers, because the requests are not installations: nothing is counted or prefetched for them. It
	// must not be nil if Catalog is not nil.
	Listing Listing
	// Offline is set if the platforms that Registry lists for a provider are only those with a stored package.
	Offline bool
	// Records has the hashes of downloaded packages of providers: Lookup of package ledger. Nil: answers do not have these hashes.
	Records Records
	// Upstreams finds the registry of a request.
	Upstreams protocol.Upstreams
	// OtherServices has the other services of upstreams. Nil: no service is named.
	OtherServices OtherServices
	// Contact returns whom developers ask about an error. Nil or empty: the operator of the proxy.
	Contact func() string
	// PublicURL is the URL of the proxy for clients, without a trailing slash. If it is empty, URLs in answers have the host of
	// the request if that is a name of the proxy; otherwise they are relative.
	PublicURL string
	// Process is the process that serves. Nil: a process without a name, problems and a home page.
	Process Process
	// Local must be set if clients need no credential for something only because no other machine can connect. It protects against
	// browsers on this machine, which send the requests of any web page, under any hostname that resolves to this machine. Requests
	// without a credential are then answered only if their Host header is an address, localhost, or a name of PublicURL, Process or
	// Upstreams. If Local is not set and Auth is nil, every client that can connect may read everything.
	Local bool
	// Auth identifies clients. Nil: clients need no credential, and may read every module.
	//
	// The Handler adds the principal to the context of each request ([auth.PrincipalOf]). Registry, Listing and Catalog must check
	// its scopes: they must be, or contain, an [auth.Registry] and an [auth.Catalog]. The Handler itself checks scopes only for the
	// paths of packages ([auth.Authenticator.Package]) and for OtherServices.
	Auth *auth.Authenticator
	// Operators identifies the operators where Auth is nil. Nil: only [auth.Owner] is an operator, which the caller's server sets
	// for connections of the owner of the process, such as those of a Unix socket.
	Operators *auth.Authenticator
	// Limits bound the requests of clients.
	Limits httpx.Limits
	// TrustedProxies are the addresses of reverse proxies whose forwarding headers count. Nil: no forwarding header counts.
	TrustedProxies []netip.Prefix
	// Requests counts the requests. Nil: nothing is counted.
	Requests *httpx.Requests
	// Log gets one entry for each request. Nil: no entry is written.
	Log *zap.Logger
	// Metrics measures. Nil: new Metrics, which only this Handler serves.
	Metrics *Metrics
	// Mounts are answered beside the protocols. Their paths must begin with /-/, and no two may match the same request.
	Mounts []Mount
}

// Records looks up the records of versions. The error is [fs.ErrNotExist] for a version without a record.
type Records interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Documents finds documents of providers.
type Documents interface {
	// Numbered returns the known versions of providers of a registry that have a document with this ID. It does not check whether
	// the client may read them: the Handler then requests the document of each from Catalog, which checks it.
	Numbered(ctx context.Context, host, id string) ([]modproxy.Ref, error)
}

// Listing lists versions, as [modproxy.Registry] does.
type Listing interface {
	Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
}

// Process describes the process that serves a [Handler]. Its methods are called concurrently.
type Process interface {
	// HasName reports whether host, the Host header of a client, is a name of the process.
	HasName(host string) bool
	// Problems returns the present problems of the process.
	Problems() []Problem
	// Home returns the text for a person with a browser. base is the proxy's URL, or empty if that is not known.
	Home(base string) string
}

// A Handler answers the requests of a proxy. It is safe for concurrent use.
type Handler struct {
	cfg       Config
	responder *httpx.Responder
	protocols http.HandlerFunc // answers the paths that protocol.Covers reports
	router    *mux.Router      // of all other paths
	admission *httpx.Admission
	documents *httpx.Documents
	releases  memory.Cache[modproxy.Digest, *openRelease] // of providers, by their digests
	rendered  memory.Cache[renderKey, *httpx.Document]    // answers of Catalog
}

// New returns a Handler. It does not check cfg.
func New(cfg Config) *Handler {
	cfg.Operators = cmp.Or(cfg.Operators, &auth.Authenticator{})
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics()
	}
	h := &Handler{
		cfg: cfg, admission: httpx.NewAdmission(cfg.Limits), documents: httpx.NewDocuments(),
		router: mux.NewRouter().SkipClean(true).UseEncodedPath(),
	}
	h.responder = &httpx.Responder{
		Log: cfg.Log, Metrics: cfg.Metrics.requests, Contact: cfg.Contact,
		ClientAddress: h.clientAddress, Check: h.checkName, Explain: h.explain, Requests: cfg.Requests,
	}
	h.releases.Max, h.releases.Limit = maxReleases, maxReleaseBytes
	h.rendered.Limit = maxRendered
	h.protocols = h.getOnly(h.serve)
	h.router.Path(protocol.DiscoveryPath).HandlerFunc(h.getOnly(h.serveDiscovery))
	h.router.Path("/{registry}" + protocol.DiscoveryPath).HandlerFunc(h.getOnly(h.serveDiscoveryBelow))
	for _, m := range cfg.Mounts {
		h.mount(m)
	}
	for _, own := range ownPaths {
		h.router.Path(own.Path).HandlerFunc(h.getOnly(func(w *httpx.Response, r *http.Request, e *httpx.Event) error {
			e.Kind = string(own.Kind)
			return own.serve(h, w, r, e)
		}))
	}
	h.router.NotFoundHandler = h.getOnly(h.serveOther)
	return h
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { // protocols bypass the router, which copies requests twice
	if len(r.TransferEncoding) > 0 {
		// net/http does not report whether there was a Content-Length, too (RFC 9112, 6.1).
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
