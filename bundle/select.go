package bundle

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// A Selection chooses the versions that an [Exporter] puts into a bundle. It is not safe for concurrent use.
type Selection struct {
	Cache interface {
		List(ctx context.Context, m modproxy.Address) iter.Seq2[cache.Listing, error]
	}
	Ledger interface {
		Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	}
	// Refused is called with each version that was to be selected and cannot be exported, and the reason.
	Refused func(v modproxy.Ref, why error)

	list []modproxy.Ref
}

// AddAll adds all cached versions.
func (s *Selection) AddAll(ctx context.Context) error {
	_, err := s.add(ctx, modproxy.Address{}, selects(modproxy.Constraint{}))
	return err
}

// AddMatching adds the cached versions of a module that c selects. If none is cached, it calls Refused.
func (s *Selection) AddMatching(ctx context.Context, m modproxy.Address, c modproxy.Constraint) error {
	found, err := s.add(ctx, m, selects(c))
	if err == nil && !found {
		s.Refused(m.At(""), fmt.Errorf("no selected version is cached: %s", strings.TrimSpace(m.String()+" "+c.String())))
	}
	return err
}

// AddLocked adds a version that the file at locks with a sum and, unless it is empty, a directory. If the ledger records other
// content, AddLocked calls Refused instead.
func (s *Selection) AddLocked(ctx context.Context, v modproxy.Ref, sum modproxy.Sum, subdir, at string) error {
	rec, err := modproxy.LookupAs(ctx, s.Ledger, v, sum)
	if err == nil && !rec.Is(sum, subdir) {
		s.Refused(v, fmt.Errorf("the ledger has %s, and %s has %s", rec.Sum, at, sum))
		return nil
	}
	return s.AddVersion(ctx, v) // a version without a record is not cached, which the Exporter reports
}

// AddVersion adds the version that v is, or that v is derived from, with all variants of it that are cached. The version itself need
// not be cached: the [Exporter] reports that.
func (s *Selection) AddVersion(ctx context.Context, v modproxy.Ref) error {
	v = v.Base()
	s.list = append(s.list, v)
	_, err := s.add(ctx, v.Address, func(cached modproxy.Ref) bool {
		return cached.Base() == v && !cached.IsListed()
	})
	return err
}

// Versions returns the selected versions in order, without those that the caller may not read: mayRead returns the reason, or nil.
// Versions calls Refused with these. If the caller may read none of them, the error is the first reason.
func (s *Selection) Versions(mayRead func(m modproxy.Address) error) (readable []modproxy.Ref, err error) {
	slices.SortFunc(s.list, func(a, b modproxy.Ref) int { return strings.Compare(a.String(), b.String()) })
	s.list = slices.Compact(s.list)
	unreadable := map[modproxy.Ref]error{}
	for _, v := range s.list {
		if errRead := mayRead(v.Address); errRead != nil {
			unreadable[v], err = errRead, cmp.Or(err, errRead)
		} else {
			readable = append(readable, v)
		}
	}
	if len(readable) == 0 {
		return nil, err
	}
	for _, v := range s.list {
		if why := unreadable[v]; why != nil {
			s.Refused(v, why)
		}
	}
	return readable, nil
}

// add adds the cached packages of a module, or of all modules for the zero address, that selects selects. Packages that were
// rewritten for the public URL of this proxy are not exported, because another proxy makes its own.
func (s *Selection) add(ctx context.Context, m modproxy.Address, selects func(modproxy.Ref) bool) (found bool, err error) {
	for l, err := range s.Cache.List(ctx, m) {
		switch {
		case l.Version == "" && err != nil:
			return found, err
		case err != nil:
			s.Refused(l.Ref, err)
		case !l.Superseded && l.Variant.Kind != modproxy.RewrittenVariant && selects(l.Ref):
			found, s.list = true, append(s.list, l.Ref)
		}
	}
	return found, nil
}

// selects returns a function that reports whether c selects a version.
func selects(c modproxy.Constraint) func(modproxy.Ref) bool {
	return func(v modproxy.Ref) bool {
		version, err := modproxy.ParseVersion(v.Version)
		return err == nil && c.Selects(version)
	}
}
