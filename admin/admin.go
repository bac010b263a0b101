// Package admin is the operator's API of a proxy: one [Server] and one [Client].
//
// The verbs that look into the data directory, or change it, use the API. It makes
// no difference to them where it is answered:
//
//   - by the process that serves from the data directory, on a Unix socket in the
//     directory, to which only its owner can connect ([Claim.Listen], [Reach]);
//   - by the verb itself, which claims the directory while no process serves from
//     it, and needs no network to reach its own Server ([Inside]);
//   - by a proxy elsewhere, over HTTPS, below the path /-/api/, to an operator's
//     token ([Remote]).
//
// A request is a JSON object, or in the query. An answer is a JSON object; one that
// may be large or take long is a stream of them, one in a line, of which the last
// says that it is complete. The API is for one version of modproxy at both ends.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// A Server answers the API. The fields whose routes are not used may be nil.
type Server struct {
	Ledger    *ledger.Log
	Damage    error        // why Ledger is nil although there is a ledger
	Cache     Cache        // nil: nothing is in memory that depends on the ledger
	Store     *store.Store // below Cache
	Upstreams Upstreams    // nil when offline
}

// Upstreams are the registries that may be asked.
type Upstreams interface {
	HasUpstream(host string) bool
}

// A Cache keeps packages, and remembers what registries answered.
type Cache interface {
	Forget(v modproxy.ModuleVersion)
	Refresh(ctx context.Context, m modproxy.Module) (cache.Refreshed, error)
	List(ctx context.Context, m modproxy.Module) iter.Seq2[cache.Listing, error]
	Discard(ctx context.Context, v modproxy.ModuleVersion) ([]cache.Discarded, error)
}

// A Route is one question of the API.
type Route struct {
	Method, Path string
	// Handle answers, or returns why it does not; it has then written nothing.
	// [modproxy.ErrInvalid] and [fs.ErrNotExist] are faults of the request.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

const apiPath = "/-/api/"

// answerHeader is in every answer of the API. An answer without it comes from
// something else, or was refused before.
const answerHeader = "Modproxy-Api"

// Routes returns what is to be answered to operators.
func (s *Server) Routes() []Route {
	routes := []Route{
		{"GET", "ledger/records", s.records},
		{"GET", "ledger/drift", s.drift},
		{"GET", "ledger/key", s.key},
		{"GET", "ledger/export", s.export},
		{"POST", "ledger/accept", s.accept},
		{"POST", "ledger/import", s.importLedger},
		{"POST", "modules/refresh", s.refresh},
		{"GET", "packages", s.packages},
		{"POST", "packages/remove", s.remove},
		{"POST", "packages/tidy", s.tidy},
		{"POST", "packages/verify", s.verify},
	}
	for i, route := range routes {
		routes[i].Path = apiPath + route.Path
		routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set(answerHeader, "1")
			return route.Handle(w, r)
		}
	}
	return routes
}

// maxRequest bounds a JSON object that the API is sent, in bytes.
const maxRequest = 64 << 10

func readJSON(w http.ResponseWriter, r *http.Request, in any) error {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("%w: request: %w", modproxy.ErrInvalid, err)
	}
	return nil
}

func writeJSON(w http.ResponseWriter, out any) error {
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(text, '\n')) // a client that is gone is no concern
	return nil
}
