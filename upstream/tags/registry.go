// Package tags answers the questions of a module registry from the tags of git and OCI repositories.
//
//	m, err := tags.ParseMapping("corp/vpc/aws", "git::https://git.example.com/acme/terraform-aws-vpc.git", "", "")
//	registry, err := tags.New(tags.Config{Host: "modules.example.com", Modules: []tags.Mapping{m}, Fetch: table})
//
// Connect it to a host with upstream.Router.
//
// Invariants: a repository is asked only about modules of a mapping, with names of at most 64 lower-case letters, digits, - and
// _ in the place of placeholders. A version is named by its commit, so that a tag that moves between a location and its download
// changes nothing. A repository that denies access is not an absent one. Questions to a forge pass package ask, so that a forge that
// is slow or unavailable does not affect modules of others.
//
// The protocol is https://developer.hashicorp.com/terraform/internals/module-registry-protocol.
package tags

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/upstream"
	"github.com/modproxy/modproxy/upstream/ask"
)

// Registry is the registry of own modules. It is safe for concurrent use.
type Registry struct {
	cfg     Config
	mirrors fetch.Mirrors                            // those of cfg.Fetch
	located memory.Cache[modproxy.Ref, fetch.Source] // between the question for a location and the download
	denied  memory.Cache[repository, error]
	forges  map[string]*ask.Limiter // by origin; their parts are the paths of repositories
}

var _ upstream.Registry = (*Registry)(nil)

// repository is a repository as the modules of a namespace see it: their credentials may differ from those of others.
type repository struct{ namespace, url string }

const (
	locatedFor    = time.Minute
	deniedFor     = 30 * time.Second
	maxRemembered = 10_000

	// Over ssh, each question starts processes here and at the forge, and only its end shows that it was answered.
	sshAtOnce = 4
	sshLate   = 5 * time.Second
)

// limits returns the limits of a forge. Its questions are not hedged: a second question for a long list would delay the first.
func limits(origin *url.URL) ask.Options {
	o := ask.Options{Host: origin.Host}
	if origin.Scheme == "ssh" {
		o.AtOnce, o.Late = sshAtOnce, sshLate
	}
	return o
}

// Config has the settings of a [Registry].
type Config struct {
	Host    string       // the host in the addresses of the modules
	Modules []Mapping    // the first one that matches a module counts
	Fetch   *fetch.Table // asks for tags, and downloads packages
}

// New returns a Registry. Its error names a mapping that an earlier one hides.
func New(c Config) (*Registry, error) {
	for i, m := range c.Modules {
		if at := slices.IndexFunc(c.Modules[:i], func(earlier Mapping) bool { return earlier.hides(m) }); at >= 0 {
			return nil, fmt.Errorf("modules[%d]: modules[%d] matches all of its modules before it", i, at)
		}
	}
	r := &Registry{cfg: c, forges: map[string]*ask.Limiter{}}
	if c.Fetch != nil { // nil if the caller only checks the mappings
		r.mirrors = c.Fetch.Mirrors
	}
	for _, m := range c.Modules {
		r.forges[r.forge(m)] = ask.New(limits(m.Origin(r.mirrors)))
	}
	r.located.Max, r.denied.Max = maxRemembered, maxRemembered
	return r, nil
}

// mapping returns the mapping of a module.
func (r *Registry) mapping(a modproxy.Address) (Mapping, error) {
	if !a.IsModule() {
		return Mapping{}, fmt.Errorf("%w: own modules have no providers beside them", modproxy.ErrNotFound)
	}
	if a.Host == r.cfg.Host && a.Check() == nil {
		for _, m := range r.cfg.Modules {
			if m.matches(a) {
				return m, nil
			}
		}
	}
	return Mapping{}, fmt.Errorf("%w: no entry of modules matches it", modproxy.ErrNotFound)
}

// source returns the repository and directory of a module.
func (m Mapping) source(a modproxy.Address) (fetch.Source, error) {
	l, err := modproxy.ParseLocation(fill(m.location, a), nil)
	l.Subdir = fill(m.path, a)
	return fetch.Source{Location: l, Module: a, NeedsSubdir: true}, err
}

// Repository returns the URL of the repository of a module. ok is false if no mapping matches the module.
func (r *Registry) Repository(a modproxy.Address) (url string, ok bool) {
	m, err := r.mapping(a)
	if err != nil {
		return "", false
	}
	s, err := m.source(a)
	return s.URL, err == nil
}

// question is a question to a repository about tags with names, or prefixes of names.
type question func(ctx context.Context, s fetch.Source, names ...string) ([]fetch.Tag, error)

// list sends a question to the repository of a module. Every question to a forge goes through it, except downloads.
func (r *Registry) list(ctx context.Context, m Mapping, a modproxy.Address, q question, names []string) ([]fetch.Tag, error) {
	s, err := m.source(a)
	if err != nil {
		return nil, err
	}
	at := repository{a.Namespace, s.URL}
	if err, isDenied := r.denied.Get(at); isDenied {
		return nil, err
	}
	_, isExact := m.Exact()
	if err := r.cfg.Fetch.Check(ctx, s); err != nil {
		if errors.Is(err, modproxy.ErrInvalid) && !isExact { // the value of a placeholder: no repository can have this name
			err = errNoTag
		}
		return nil, err
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	all, err := ask.Do(ctx, r.forges[r.forge(m)], strings.Trim(u.Path, "/"), func(ctx context.Context) ([]fetch.Tag, error) {
		s := s
		s.OnAnswer = func() { ask.Begin(ctx) }
		return q(ctx, s, names...)
	})
	if errors.Is(err, modproxy.ErrDenied) {
		r.denied.Add(at, err, deniedFor, int64(len(s.URL)))
	}
	return all, err
}

// hidden returns err. For a pattern, its text does not contain the repository: clients choose the names in it.
func (m Mapping) hidden(err error) error {
	_, isExact := m.Exact()
	switch {
	case isExact:
		return err
	case errors.Is(err, modproxy.ErrNotFound):
		return &hiddenError{errNoTag, err}
	case errors.Is(err, modproxy.ErrDenied):
		return &hiddenError{errNoAccess, err}
	}
	return err
}

// hiddenError is an error with a text for clients, and with the reason for operators.
type hiddenError struct{ shown, reason error }

func (e *hiddenError) Error() string { return e.shown.Error() }

func (e *hiddenError) Unwrap() error { return e.shown }

// Inside returns the reason, for the log.
func (e *hiddenError) Inside() string { return e.reason.Error() }

var (
	errNoTag    = fmt.Errorf("%w: its repository does not exist, or has no tag for it", modproxy.ErrNotFound)
	errNoAccess = fmt.Errorf("%w: modproxy has no access to its repository (operator: the log and \"modproxy modules check\" have the reason)", modproxy.ErrDenied)
)

// Origin returns the forge, or its mirror, that is asked for the versions of a module, such as https://git.example.com. Without a
// mapping it returns the host of the module.
func (r *Registry) Origin(a modproxy.Address) string {
	m, err := r.mapping(a)
	if err != nil {
		return a.Host
	}
	return r.forge(m)
}

// forge returns the origin from which the repositories of m are downloaded.
func (r *Registry) forge(m Mapping) string {
	origin := m.Origin(r.mirrors)
	return origin.Scheme + "://" + origin.Host
}

// Health returns the health of all forges of mappings, by host. It sends no request.
func (r *Registry) Health() map[string]ask.Health {
	all := map[string]ask.Health{}
	for _, m := range r.cfg.Modules {
		host := m.Origin(r.mirrors).Host
		all[host] = all[host].Join(r.forges[r.forge(m)].Health())
	}
	return all
}
