// Package admin implements the operator's API of a proxy, for its server and its clients.
//
// # Use
//
// A [Client] calls an [Endpoint], such as [LedgerRecords], of one [Server]. The verbs that read or change the data directory use
// the API, with a client for the place where the server is:
//
//   - [Reach]: the process that serves from the data directory. It listens on a Unix socket in the directory, to which only the
//     owner of the directory can connect (package datadir).
//   - [Inside]: the process of the verb itself, which has claimed the directory because no process serves from it.
//   - [Remote]: a proxy elsewhere, over HTTPS, below the path /-/api/. The client sends an operator's token.
//
// # Invariants
//
// A request is a JSON object, or its fields are in the query. An answer is a stream of JSON objects, one a line. The last object
// has "done" or "error": an answer without it was cut off, and is an error.
//
// The two ends may be neighbouring minor versions of modproxy. So endpoints and fields stay. A server refuses a field that it does not
// know, so a new field of a request is left out if it is zero. A client ignores new fields of answers. test/previous checks this.
//
// # Specification
//
// docs/reference/http.md lists the endpoints.
package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/mirror"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Server answers the API. Fields that no used endpoint needs may be nil.
type Server struct {
	Ledger         *ledger.Log
	Damage         error        // why Ledger is nil although a ledger exists
	Cache          Cache        // nil: nothing in memory depends on the ledger
	Store          *store.Store // below Cache
	Gate           *policy.Gate
	Pending        *history.Demand  // requests for versions that wait for approval
	Missing        *history.Demand  // requests for versions that are not cached; nil unless offline
	Configurations *tfconfig.Reader // reads the packages in Store
	Upstreams      Upstreams        // nil when offline
	Routing        closure.Routes   // to Upstreams
	Nested         Nested           // nil unless nested sources are rewritten
	Listing        modproxy.Catalog // lists the modules of registries; nil when offline
	Offline        bool             // set by the configuration: a removed package cannot be downloaded again
	FirstSeen      FirstSeen
	Programs       Programs
	Bundles        Bundles
	Operators      Operators // nil: the owner of the data directory is the only caller, and no decision is reported
}

// Nested resolves sources in packages that are not modules of a registry.
type Nested interface {
	closure.Nested
	// Bring returns when everything that clients receive for a version is cached.
	Bring(ctx context.Context, v modproxy.Ref) error
}

// Operators identifies the callers of the API and receives what they decide and import.
type Operators interface {
	// Operator returns the name of a caller with a token. It returns an empty string for the owner of the data directory.
	Operator(ctx context.Context) string
	// MayRead returns the reason why the caller may not read packages of m, or nil. The reason also covers facts that are read
	// from packages, such as their dependencies.
	MayRead(ctx context.Context, m modproxy.Address) error
	// MayRefresh returns the reason why the caller may not refresh the versions of m, or nil.
	MayRefresh(ctx context.Context, m modproxy.Address) error
	// Decided is called after a decision was made.
	Decided(d modproxy.Decision)
	// Imported is called after a bundle was imported, with the result for each of its items.
	Imported(b BundleHead, items []bundle.Item)
}

// Programs returns the numbers of installations by client program. The keys are "Terraform" and "OpenTofu".
type Programs interface {
	Programs(ctx context.Context) (map[string]int64, error)
}

// Upstreams reports which registries the proxy may request.
type Upstreams interface {
	HasUpstream(host string) bool
	// UpstreamHosts returns the hostnames of the registries that the configuration names.
	UpstreamHosts() []string
}

// A Cache stores packages and the answers of registries.
type Cache interface {
	modproxy.Registry
	Forget(v modproxy.Ref)
	Refresh(ctx context.Context, m modproxy.Address) (cache.Refreshed, error)
	List(ctx context.Context, m modproxy.Address) iter.Seq2[cache.Listing, error]
	Discard(ctx context.Context, v modproxy.Ref) ([]cache.Discarded, error)
	StoredVersions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
	bundle.Cache
}

// An Access is the part of a data directory that an endpoint needs. It is used only if no proxy serves from the directory.
type Access int

const (
	ReadLedger         Access = iota // the ledger, for reading, even while another process writes it
	ChangeLedger                     // the ledger, which must exist
	CreateLedger                     // the ledger, which is created if it does not exist
	UsePackages                      // the stored packages, and the readable part of the ledger
	UseDamagedPackages               // the same, even if records of packages are damaged or lost
	UsePolicy                        // the rules of the policy, the ledger and the stored packages
	UseRegistries                    // a whole proxy
)

// An Endpoint is a function of the API. Its request is an In, and its answer is any number of Items and then an End.
type Endpoint[In, Item, End any] struct {
	Access       Access
	method, path string
	about        string // one sentence on the answer, for docs/reference/http.md
	answer       func(s *Server, ctx context.Context, in In, each func(Item)) (End, error)
}

// The endpoints of the API.
var (
	BundlesExport = Endpoint[ExportRequest, ExportLine, BundleHead]{
		UsePolicy, "POST", "bundles/export", "returns a bundle with the chosen versions", (*Server).exportBundle,
	}
	BundlesImport = Endpoint[BundleImportRequest, bundle.Item, BundleHead]{
		UseRegistries, "POST", "bundles/import", "imports a bundle", (*Server).importBundle,
	}
	ClientsUsual = Endpoint[none, none, tfconfig.Client]{
		UsePackages, "GET", "clients/usual", "returns the client that installs most through this proxy", (*Server).usualClient,
	}
	DecisionsList = Endpoint[versionname.Name, Decision, none]{
		ReadLedger, "GET", "decisions", "lists decisions of operators", (*Server).decisions,
	}
	DecisionsMake = Endpoint[DecisionRequest, none, DecisionResult]{
		UseRegistries, "POST", "decisions/make", "makes a decision, such as a block, or ends one", (*Server).decide,
	}
	LedgerRecords = Endpoint[LedgerQuery, Record, none]{
		ReadLedger, "GET", "ledger/records", "lists records of the ledger", (*Server).records,
	}
	LedgerDrift = Endpoint[LedgerQuery, Drift, none]{
		ReadLedger, "GET", "ledger/drift", "lists versions that were offered with other content than their records", (*Server).drift,
	}
	LedgerKey = Endpoint[none, none, string]{
		ReadLedger, "GET", "ledger/key", "returns the verifier key of the ledger", (*Server).key,
	}
	LedgerExport = Endpoint[none, []byte, int64]{
		ReadLedger, "GET", "ledger/export", "returns the whole ledger", (*Server).export,
	}
	LedgerAccept = Endpoint[AcceptRequest, none, AcceptResult]{
		ChangeLedger, "POST", "ledger/accept", "accepts other content of a version, or another key of a provider", (*Server).accept,
	}
	LedgerImport = Endpoint[LedgerImportRequest, none, int64]{
		CreateLedger, "POST", "ledger/import", "adds the records of an export", (*Server).importLedger,
	}
	MirrorCheck = Endpoint[mirror.Request, mirror.Line, mirror.Progress]{
		UsePolicy, "POST", "mirror/check", "reports which packages of a configuration are not cached, and downloads nothing", (*Server).mirrorCheck,
	}
	MirrorFetch = Endpoint[mirror.Request, mirror.Line, mirror.Progress]{
		UseRegistries, "POST", "mirror", "downloads the packages that a configuration installs", (*Server).mirrorFetch,
	}
	ModulesRefresh = Endpoint[RefreshRequest, RefreshResult, none]{
		UseRegistries, "POST", "modules/refresh", "requests the versions of a module from its registry again", (*Server).refresh,
	}
	PackagesList = Endpoint[ListRequest, Package, store.Amount]{
		UsePackages, "GET", "packages", "lists stored packages", (*Server).packages,
	}
	PackagesRemove = Endpoint[RemoveRequest, RemovedPackage, none]{
		UsePackages, "POST", "packages/remove", "removes stored packages", (*Server).remove,
	}
	PackagesCollect = Endpoint[store.Collection, RemovablePackage, CollectResult]{
		UsePackages, "POST", "packages/tidy", "removes unneeded data, and the least recently used packages over a size", (*Server).collect,
	}
	PackagesVerify = Endpoint[VerifyRequest, VerifyLine, store.Verified]{
		UseDamagedPackages, "POST", "packages/verify", "verifies stored data, and repairs it", (*Server).verify,
	}
	MissingClear = Endpoint[versionname.Name, none, int]{
		UsePolicy, "POST", "missing/clear", "clears the list of missing versions", (*Server).clearMissing,
	}
	MissingList = Endpoint[versionname.Name, MissingVersion, none]{
		UsePolicy, "GET", "missing", "lists versions that clients requested and modproxy did not have while offline", (*Server).missing,
	}
	PendingList = Endpoint[versionname.Name, PendingVersion, none]{
		UsePolicy, "GET", "pending", "lists versions that clients requested and that wait for approval", (*Server).pending,
	}
	PendingFetch = Endpoint[versionname.Name, PendingVersion, none]{
		UseRegistries, "POST", "pending/fetch", "downloads and records the versions that wait for approval, and does not serve them", (*Server).fetch,
	}
	PolicyForecast = Endpoint[ForecastRequest, ForecastItem, none]{
		UseRegistries, "POST", "policy/forecast", "reports what rules would deny of the versions that a configuration installs", (*Server).forecast,
	}
	PolicyReport = Endpoint[ReportRequest, ReportItem, none]{
		UsePolicy, "POST", "policy/report", "lists the verdicts of rules on all versions that were ever served", (*Server).report,
	}
	PolicyTest = Endpoint[PolicyTestRequest, none, Verdict]{
		UsePolicy, "POST", "policy/test", "explains the verdict on a version", (*Server).policyTest,
	}
)

// Routes returns the routes of all endpoints.
func (s *Server) Routes() []Route {
	refresh := ModulesRefresh.route(s)
	refresh.Refresh = true
	return []Route{
		BundlesExport.route(s), BundlesImport.route(s), ClientsUsual.route(s), DecisionsList.route(s), DecisionsMake.route(s),
		LedgerRecords.route(s), LedgerDrift.route(s), LedgerKey.route(s), LedgerExport.route(s), LedgerAccept.route(s),
		LedgerImport.route(s), MirrorCheck.route(s), MirrorFetch.route(s), MissingClear.route(s), MissingList.route(s),
		refresh, PackagesList.route(s), PackagesRemove.route(s), PackagesCollect.route(s),
		PackagesVerify.route(s), PendingList.route(s), PendingFetch.route(s), PolicyForecast.route(s),
		PolicyReport.route(s), PolicyTest.route(s),
	}
}

// A Route is the HTTP route of one endpoint.
type Route struct {
	Method, Path string
	// About is one sentence on the answer, for docs/reference/http.md.
	About string
	// Refresh is set for the route that callers without an admin token may also use, within their scopes.
	Refresh bool
	// Handle has the meaning of Handle in a Mount of package proxy.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

const apiPath = "/-/api/"

// answerHeader is in every answer of the API. An answer without it comes from another program, or was denied before it reached
// the API.
const answerHeader = "Modproxy-Api"

// maxRequest is the maximum size of a request, in bytes. A request with 10,000 rules has about 2 MiB.
const maxRequest = 16 << 20

func readRequest(w http.ResponseWriter, r *http.Request, in any) error {
	if in, ok := in.(interface {
		read(query map[string][]string, body io.Reader)
	}); ok {
		in.read(r.URL.Query(), r.Body)
		return http.NewResponseController(w).SetReadDeadline(time.Time{}) // the size of an export is not limited
	}
	limit := int64(maxRequest)
	if _, ok := in.(*ExportRequest); ok {
		limit += bundle.MaxHead * 4 / 3 // in base64
	}
	var body io.Reader = http.MaxBytesReader(w, r.Body, limit)
	if r.Method != http.MethodPost {
		fields := map[string]string{}
		for name, values := range r.URL.Query() {
			if values[0] != "" {
				fields[name] = values[0]
			}
		}
		text, _ := json.Marshal(fields) // strings always marshal
		body = bytes.NewReader(text)
	}
	d := json.NewDecoder(body)
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("%w: request: %w (this proxy and its caller may be different versions of modproxy)", modproxy.ErrInvalid, err)
	}
	return nil
}

// none is an empty request, item or end.
type none = struct{}

// line is a line of an answer. One field is set. The last line has Done or Error.
type line[Item, End any] struct {
	Item  *Item  `json:"item,omitempty"`
	Done  *End   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// route returns the route of e. Its handler writes a line for each item and a line for the end.
func (e Endpoint[In, Item, End]) route(s *Server) Route {
	return Route{Method: e.method, Path: apiPath + e.path, About: e.about, Handle: func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set(answerHeader, "1")
		var in In
		if err := readRequest(w, r, &in); err != nil {
			return err
		}
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		begun, flushed := false, time.Now()
		write := func(l line[Item, End]) {
			if !begun {
				w.Header().Set("Content-Type", "application/x-ndjson")
				w.Header().Set("Cache-Control", "no-store")
				begun = true
			}
			_ = out.Encode(l) // if the client disconnects, the context ends
			if time.Since(flushed) > 100*time.Millisecond {
				_ = http.NewResponseController(w).Flush()
				flushed = time.Now()
			}
		}
		switch end, err := e.answer(s, r.Context(), in, func(item Item) { write(line[Item, End]{Item: &item}) }); {
		case err == nil:
			write(line[Item, End]{Done: &end})
		case !begun:
			return err
		default:
			write(line[Item, End]{Error: err.Error()})
		}
		return nil
	}}
}
