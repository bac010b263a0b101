package upstream

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
)

// Registry is a registry with a catalog, and with the commits and dates of its versions. [Client] implements it.
type Registry interface {
	modproxy.Registry
	modproxy.Catalog
	PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error)
	Commit(ctx context.Context, v modproxy.Ref) (string, error)
	Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error)
	PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error)
	OtherServices(ctx context.Context, host string) map[string]string
	Document(ctx context.Context, host, path string) (mediaType string, content []byte, err error)
}

// Router is the registry of all hosts. It passes each question to the registry of the module's host. Use Hosts to
// connect a registry of another kind.
type Router struct {
	Hosts   map[string]Registry // by normalised hostname
	Default Registry            // for all other hosts; must not be nil
	Reserve Reserve             // called before every question; its error is returned unchanged; nil reserves nothing
}

// Reserve reserves namespaces for some registries.
type Reserve interface {
	// Reserved returns the reason why a host must not be asked about a namespace, or nil.
	Reserved(host, namespace string) error
	// ReservedIn returns the reason why a host must not receive a text that names a reserved namespace, or nil.
	ReservedIn(host, text string) error
}

var _ Registry = (*Router)(nil)

// of returns the registry of a host. The error is the reason why the host must not be asked about the namespace.
func (r *Router) of(host, namespace string) (Registry, error) {
	if r.Reserve != nil {
		if err := r.Reserve.Reserved(host, namespace); err != nil {
			return nil, err
		}
	}
	if registry, ok := r.Hosts[host]; ok {
		return registry, nil
	}
	return r.Default, nil
}

// Versions implements [modproxy.Registry].
func (r *Router) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	next, err := r.of(m.Host, m.Namespace)
	if err != nil {
		return nil, err
	}
	return next.Versions(ctx, m)
}

// Location implements [modproxy.Registry].
func (r *Router) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return modproxy.Location{}, err
	}
	return next.Location(ctx, v)
}

// Package implements [modproxy.Registry].
func (r *Router) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return nil, err
	}
	return next.Package(ctx, v)
}

// PackageAt implements [Registry].
func (r *Router) PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error) {
	next, err := r.of(rec.Host, rec.Namespace)
	if err != nil {
		return nil, err
	}
	return next.PackageAt(ctx, rec)
}

// Commit implements [Registry].
func (r *Router) Commit(ctx context.Context, v modproxy.Ref) (string, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return "", err
	}
	return next.Commit(ctx, v)
}

// Published implements [Registry].
func (r *Router) Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error) {
	next, err := r.of(m.Host, m.Namespace)
	if err != nil {
		return nil, nil, err
	}
	return next.Published(ctx, m, versions)
}

// PublishedOf implements [Registry].
func (r *Router) PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return time.Time{}, err
	}
	return next.PublishedOf(ctx, v)
}

// Details implements [modproxy.Catalog].
func (r *Router) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return nil, err
	}
	return next.Details(ctx, v)
}

// History implements [modproxy.Catalog].
func (r *Router) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	next, err := r.of(m.Host, m.Namespace)
	if err != nil {
		return nil, err
	}
	return next.History(ctx, m)
}

// Downloads implements [modproxy.Catalog].
func (r *Router) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	next, err := r.of(m.Host, m.Namespace)
	if err != nil {
		return nil, err
	}
	return next.Downloads(ctx, m)
}

// Text implements [modproxy.Catalog].
func (r *Router) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	next, err := r.of(v.Host, v.Namespace)
	if err != nil {
		return nil, err
	}
	return next.Text(ctx, v, id)
}

// OtherServices implements [Registry].
func (r *Router) OtherServices(ctx context.Context, host string) map[string]string {
	next, err := r.of(host, "")
	if err != nil {
		return nil
	}
	return next.OtherServices(ctx, host)
}

// Document implements [Registry]. It checks the path against reserved names, because the path reveals the names in it
// to the host.
func (r *Router) Document(ctx context.Context, host, path string) (mediaType string, content []byte, err error) {
	next, err := r.of(host, "")
	if err == nil && r.Reserve != nil {
		text, errEscape := url.QueryUnescape(path)
		if errEscape != nil {
			return "", nil, fmt.Errorf("%w: escapes in %.80q", modproxy.ErrInvalid, path)
		}
		err = r.Reserve.ReservedIn(host, text)
	}
	if err != nil {
		return "", nil, err
	}
	return next.Document(ctx, host, path)
}

// List implements [modproxy.Catalog]. It checks the search text against reserved names, because a search reveals them
// to the host.
func (r *Router) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	next, err := r.of(q.Host, q.Namespace)
	if err == nil && r.Reserve != nil && q.Search != "" {
		err = r.Reserve.ReservedIn(q.Host, q.Search)
	}
	if err != nil {
		return nil, err
	}
	return next.List(ctx, q)
}
