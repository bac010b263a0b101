package mirror

import (
	"context"
	"errors"
	"io/fs"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// cachedRegistry answers from the store, and requests nothing.
type cachedRegistry struct {
	cache      Cache
	cached     *cache.Registry // over the same store, without a registry
	cachedOnly bool            // clients get cached versions only
}

// Versions returns the stored versions of m; with cachedOnly, only those whose packages are cached.
func (r cachedRegistry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if r.cachedOnly {
		v, err := r.cached.Versions(ctx, m)
		return v, asMissing(err)
	}
	v, err := r.cache.StoredVersions(ctx, m)
	if errors.Is(err, fs.ErrNotExist) {
		err = &missingError{m.At("")}
	}
	return v, err
}

// Location implements [modproxy.Registry].
func (r cachedRegistry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.cached.Location(ctx, v)
	return l, asMissing(err)
}

// Package implements [modproxy.Registry].
func (r cachedRegistry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, err := r.cached.Package(ctx, v)
	return p, asMissing(err)
}

// asMissing replaces a [modproxy.NotCached], whose message is for clients, by a missingError. It returns other errors as they are.
func asMissing(err error) error {
	if e, ok := errors.AsType[*modproxy.NotCached](err); ok {
		return &missingError{e.Ref}
	}
	return err
}

// missingError is the error for a version that is not cached, or for a module without cached versions.
type missingError struct{ modproxy.Ref }

func (e *missingError) Error() string {
	if e.Version == "" {
		return e.String() + ": no version is cached"
	}
	return e.String() + ": it is not cached"
}

func (e *missingError) Unwrap() error { return modproxy.ErrUnavailable }
