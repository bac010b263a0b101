// Package admin is the operator's API of a proxy: one [Server] and one [Client].
//
// The verbs that look into the data directory, or change it, use the API, wherever it is answered:
//
//   - by the process that serves from the data directory, on a Unix socket in the directory, to which only its owner
//     can connect ([Reach], package datadir);
//   - by the verb itself, which claims the directory while no process serves from it ([Inside]);
//   - by a proxy elsewhere, over HTTPS, below the path /-/api/, to an operator's token ([Remote]).
//
// A request is a JSON object, or its fields are in the query. An answer is a stream of JSON objects, one in a line, of
// which the last has "done" or "error": one without was cut off. The API is for one version of modproxy at both ends.
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

// A Server answers the API. The fields whose routes are not used may be nil.
type Server struct {
	Ledger         *ledger.Log
	Damage         error        // why Ledger is nil although there is a ledger
	Cache          Cache        // nil: nothing is in memory that depends on the ledger
	Store          *store.Store // below Cache
	Gate           *policy.Gate
	Pending        *history.Demand  // of what waits for approval
	Missing        *history.Demand  // of what is not kept; nil unless offline
	Configurations *tfconfig.Reader // of the packages in Store
	Upstreams      Upstreams        // nil when offline
	Routing        closure.Routes   // to Upstreams
	Nested         Nested           // nil unless nested sources are rewritten
	Listing        modproxy.Catalog // what registries list; nil when offline
	Offline        bool             // by the configuration: nothing brings back what is removed
	Sights         Sights
	Programs       Programs
	Bundles        Bundles
	Operators      Operators // nil: the owner of the data directory asks, and nobody else is told
}

// Nested knows what packages call that does not go through a registry.
type Nested interface {
	closure.Nested
	// Bring returns when all is kept that clients are served of a version.
	Bring(ctx context.Context, v modproxy.Ref) error
}

// Operators are those who ask.
type Operators interface {
	// Operator names who asks with a token. It is empty for the owner of the data directory.
	Operator(ctx context.Context) string
	// MayRead returns why the content of packages of m, and what stands in them, is not for the caller; nil if it is.
	MayRead(ctx context.Context, m modproxy.Address) error
	// MayRefresh returns why the caller may not have the versions of m requested anew; nil if it may.
	MayRefresh(ctx context.Context, m modproxy.Address) error
	// Decided is told of a decision that was made.
	Decided(d modproxy.Decision)
	// Imported is told of a bundle that was imported, and what became of all that is in it.
	Imported(b BundleHead, items []bundle.Item)
}

// Programs count the installations of Terraform and OpenTofu, by these names.
type Programs interface {
	Programs(ctx context.Context) (map[string]int64, error)
}

// Upstreams are the registries that may be asked.
type Upstreams interface {
	HasUpstream(host string) bool
	// UpstreamHosts returns the registries that are named.
	UpstreamHosts() []string
}

// A Cache keeps packages, and remembers what registries answered.
type Cache interface {
	modproxy.Registry
	Forget(v modproxy.Ref)
	Refresh(ctx context.Context, m modproxy.Address) (cache.Refreshed, error)
	List(ctx context.Context, m modproxy.Address) iter.Seq2[cache.Listing, error]
	Discard(ctx context.Context, v modproxy.Ref) ([]cache.Discarded, error)
	Known(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
	bundle.Cache
}

// An Access is the part of a data directory that an endpoint needs. It counts if no proxy serves from the directory.
type Access int

const (
	ReadLedger         Access = iota // the ledger, for reading, also while another process writes it
	ChangeLedger                     // the ledger, which must exist
	CreateLedger                     // the ledger, which is created if it does not exist
	UsePackages                      // the stored packages, and the readable part of the ledger
	UseDamagedPackages               // likewise, also if records of packages are damaged or lost
	UsePolicy                        // the rules of the policy, the ledger and the stored packages
	UseRegistries                    // a whole proxy
)

// An Endpoint is something that the API is asked: with In, for any number of Items and then an End.
type Endpoint[In, Item, End any] struct {
	Access       Access
	method, path string
	about        string // one sentence on the answer, for docs/reference/http.md
	answer       func(s *Server, ctx context.Context, in In, each func(Item)) (End, error)
}

// The questions of the API.
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
	PackagesTidy = Endpoint[store.GC, RemovablePackage, TidyResult]{
		UsePackages, "POST", "packages/tidy", "removes unneeded data, and the least recently used packages over a size", (*Server).tidy,
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

// Routes returns what is to be answered to operators.
func (s *Server) Routes() []Route {
	refresh := ModulesRefresh.route(s)
	refresh.Refresh = true
	return []Route{
		BundlesExport.route(s), BundlesImport.route(s), ClientsUsual.route(s), DecisionsList.route(s), DecisionsMake.route(s),
		LedgerRecords.route(s), LedgerDrift.route(s), LedgerKey.route(s), LedgerExport.route(s), LedgerAccept.route(s),
		LedgerImport.route(s), MirrorCheck.route(s), MirrorFetch.route(s), MissingClear.route(s), MissingList.route(s),
		refresh, PackagesList.route(s), PackagesRemove.route(s), PackagesTidy.route(s),
		PackagesVerify.route(s), PendingList.route(s), PendingFetch.route(s), PolicyForecast.route(s),
		PolicyReport.route(s), PolicyTest.route(s),
	}
}

// A Route is where a question is answered.
type Route struct {
	Method, Path string
	// About is one sentence on the answer, for docs/reference/http.md.
	About string
	// Refresh is set for the route of which callers that are no operators may make use, within their scopes.
	Refresh bool
	// Handle is as in a Mount of package proxy.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

const apiPath = "/-/api/"

// answerHeader is in every answer of the API. One without it comes from something else, or was refused before.
const answerHeader = "Modproxy-Api"

// maxRequest bounds a request, in bytes. One with 10,000 rules has 2 MiB or so.
const maxRequest = 16 << 20

func readRequest(w http.ResponseWriter, r *http.Request, in any) error {
	if in, ok := in.(interface {
		read(query map[string][]string, body io.Reader)
	}); ok {
		in.read(r.URL.Query(), r.Body)
		return http.NewResponseController(w).SetReadDeadline(time.Time{}) // an export is as long as it is
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
		return fmt.Errorf("%w: request: %w", modproxy.ErrInvalid, err)
	}
	return nil
}

// none is an empty request, item or end.
type none = struct{}

// line is a line of an answer: one field is set. The last line is one with Done or Error.
type line[Item, End any] struct {
	Item  *Item  `json:"item,omitempty"`
	Done  *End   `json:"done,omitempty"`
	Error string `json:"error,omitempty"`
}

// route answers e with a line for each item, and one for the end.
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
			_ = out.Encode(l) // a client that is gone ends the context
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
