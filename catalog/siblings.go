package catalog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"weak"

	"github.com/modproxy/modproxy"
)

// siblingsKey identifies siblings by a description and the groups of a client. The pointer is weak, because the description may be much
// larger than the siblings.
type siblingsKey struct {
	of     weak.Pointer[modproxy.Details]
	groups groups
}

// siblings are the other systems of modules with the same name that a client may see.
type siblings struct {
	systems []string // sorted
	name    string   // identifies the systems
}

const (
	siblingsFor = time.Second // as long as decisions are cached
	maxSiblings = 4 << 20
)

// siblingsOf returns the systems that d, the answer to q, names, and those with a cached package, without systems that the client of ctx
// may not see.
func (c *Catalog) siblingsOf(ctx context.Context, d *modproxy.Details, q question) (s siblings, err error) {
	m, k := q.Address, siblingsKey{weak.Make(d), q.groups}
	if !m.IsModule() {
		return s, nil
	}
	if known, ok := c.siblings.Get(k); ok {
		return known, nil
	}
	began := time.Now()
	kept, _, err := c.index.get(ctx, c.Packages)
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	all := slices.Clone(d.Systems)
	if err == nil { // on error, cached systems are left out
		all = append(all, systemsOf(kept, m)...)
	}
	slices.Sort(all)
	for _, system := range slices.Compact(all) {
		sibling := m
		sibling.System = system
		if sibling == m {
			continue
		}
		may, err := c.isThere(ctx, sibling, slices.Contains(d.Systems, system))
		if err != nil {
			return s, err
		}
		if may {
			s.systems = append(s.systems, system)
		}
	}
	s.name = strings.Join(s.systems, " ")
	size := int64(256 + len(q.groups.first) + len(q.groups.others) + len(s.name) + 16*len(s.systems))
	c.siblings.Add(k, s, max(siblingsFor, rereadShare*time.Since(began)), size)
	return s, nil
}

// isThere reports whether the client of ctx may see m: it may use a known version of m; or no version is known, but the registry names m
// and the rules do not deny all of m.
func (c *Catalog) isThere(ctx context.Context, m modproxy.Address, named bool) (bool, error) {
	_, _, err := latest(ctx, c.Known, m)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return true, nil
	case !named, errors.Is(err, modproxy.ErrDenied):
		return false, nil
	}
	err = c.Rules.CheckListed(ctx, m.At(""), modproxy.FirstSeen{})
	if errors.Is(err, modproxy.ErrDenied) {
		return false, nil
	}
	return err == nil, err
}

// systemsOf returns the systems of the modules in entries that have the name of m. entries are sorted by address.
func systemsOf(entries []entry, m modproxy.Address) (systems []string) {
	m.System = ""
	i, _ := slices.BinarySearchFunc(entries, m.Host+"/"+m.Namespace+"/"+m.Name+"/", func(e entry, name string) int {
		return strings.Compare(e.String(), name)
	})
	for _, e := range entries[i:] {
		system := e.System
		if e.System = ""; e.Address != m {
			break
		}
		systems = append(systems, system)
	}
	return systems
}
