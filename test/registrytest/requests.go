package registrytest

import (
	"io"
	"log"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Request is a request that an [Upstream] received.
type Request struct {
	Kind   Kind
	Method string
	Path   string // with its query
	Header http.Header
}

var silent = log.New(io.Discard, "", 0)

// Requests returns the requests since the start or the last Reset, in their order.
func (u *Upstream) Requests() []Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.requests)
}

// Count returns the number of requests of one kind, or with [All] of every kind, since the last Reset.
func (u *Upstream) Count(kind Kind) int {
	n := 0
	for _, r := range u.Requests() {
		if kind == All || r.Kind == kind {
			n++
		}
	}
	return n
}

// Connections returns the number of new connections since the last Reset.
func (u *Upstream) Connections() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.conns
}

func (u *Upstream) connected(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.conns++
	}
}

// Reset forgets the requests and connections so far.
func (u *Upstream) Reset() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.requests, u.conns = nil, 0
}

// kindOf returns the kind of a request by its path.
func kindOf(r *http.Request) Kind {
	p := r.URL.Path
	switch {
	case p == "/.well-known/terraform.json":
		return Discovery
	case strings.HasPrefix(p, "/v1/modules/") && path.Base(p) == "versions":
		return Versions
	case strings.HasPrefix(p, "/v1/modules/") && path.Base(p) == "download":
		return Download
	case ociPath.MatchString(p):
		return OCI
	case strings.HasPrefix(p, "/v2/modules/"), strings.HasPrefix(p, "/v1/modules/") && strings.Count(p, "/") == 6,
		strings.HasPrefix(p, "/v2/providers/"), strings.HasPrefix(p, providersPath) && strings.Count(p, "/") == 5 && path.Base(p) != "versions":
		return Dates
	case p == "/v1/modules", strings.HasPrefix(p, "/v1/modules/"), strings.HasPrefix(p, "/registry/docs/"),
		strings.HasPrefix(p, "/v2/"):
		return Catalog
	case strings.HasPrefix(p, providersPath) && path.Base(p) == "versions":
		return ProviderVersions
	case strings.HasPrefix(p, providersPath):
		return ProviderDownload
	case strings.HasPrefix(p, releasesPath) && strings.HasSuffix(p, ".zip"):
		return Zip
	case strings.HasPrefix(p, releasesPath) && strings.HasSuffix(p, ".sig"):
		return Signature
	case strings.HasPrefix(p, releasesPath):
		return Sums
	case strings.HasPrefix(p, "/archives/"), strings.HasPrefix(p, "/files/"):
		return Archive
	case strings.HasPrefix(p, "/get/"), strings.HasPrefix(p, "/meta/"):
		return Get
	case strings.Contains(p, ".git/"):
		return Git
	}
	return Other
}

// ServeHTTP records the request and answers it according to the knobs.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := kindOf(r)
	u.mu.Lock()
	u.requests = append(u.requests, Request{kind, r.Method, r.URL.RequestURI(), r.Header.Clone()})
	served := u.served
	u.mu.Unlock()
	if served == nil {
		http.Error(w, "the upstream is not loaded yet", http.StatusServiceUnavailable)
		return
	}
	u.answer(kind, served).ServeHTTP(w, r)
}
