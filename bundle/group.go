package bundle

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
)

// A group is what an import decides on together, in the order in which the ledger of the other side has recorded it, because the first
// that is recorded here decides on the others: the releases of a provider, of which the first one says who may sign, and a version in
// several spellings, of which the first one says what the others contain.
type group struct {
	unread int           // versions that were not read; only the reader of the bundle uses it
	done   chan struct{} // closed when all was decided

	mu      sync.Mutex
	missing int // versions that did not join
	members []member
}

// A member is a version of an entry.
type member struct {
	*taking
	i int
}

func (m member) version() modproxy.Ref { return m.Versions[m.i].Ref }
func (m member) number() int64         { return m.Facts.Versions[m.i].Number }

// groupKey names the group that v belongs to, or that it waits for.
func groupKey(v modproxy.Ref) modproxy.Ref {
	if v.IsProvider() {
		return v.Address.At("")
	}
	return v.Folded()
}

// groups returns the groups of an index.
func groups(index *Index) map[modproxy.Ref]*group {
	mixed := map[modproxy.Ref]bool{} // versions with a spelling that is not in lower case
	for _, p := range index.Packages {
		for _, v := range p.Versions {
			if f := v.Ref.Folded(); f != v.Ref {
				mixed[f] = true
			}
		}
	}
	all := map[modproxy.Ref]*group{}
	for _, p := range index.Packages {
		for _, v := range p.Versions {
			key := groupKey(v.Ref)
			if v.IsArchive() || !v.IsProvider() && !mixed[key] {
				continue
			}
			g := all[key]
			if g == nil {
				g = &group{done: make(chan struct{})}
				all[key] = g
			}
			g.unread++
			g.missing++
		}
	}
	return all
}

// groupOf returns the group that decides on a version, or nil, and whether the version is one of it. If not, it waits for the group.
func (x *imports) groupOf(m member) (g *group, decides bool) {
	v := m.version()
	return x.groups[groupKey(v)], !v.IsArchive()
}

// arrive notes that t was read, and returns of each version whether all of its group was. The reader of the bundle calls it.
func (x *imports) arrive(t *taking) []bool {
	for i := range t.Versions {
		if g, decides := x.groupOf(member{t, i}); g != nil && decides {
			g.unread--
		}
	}
	read := make([]bool, len(t.Versions))
	for i := range t.Versions {
		g, _ := x.groupOf(member{t, i})
		read[i] = g != nil && g.unread == 0
	}
	return read
}

// join adds a version to its group. With the last one all of them are decided.
func (x *imports) join(ctx context.Context, g *group, m member) error {
	g.mu.Lock()
	g.members = append(g.members, m)
	g.missing--
	last := g.missing == 0
	g.mu.Unlock()
	if !last {
		return nil
	}
	slices.SortFunc(g.members, func(a, b member) int { return cmp.Compare(a.number(), b.number()) })
	for _, m := range g.members {
		if err := x.decideOn(ctx, m); err != nil {
			return err
		}
	}
	close(g.done)
	return nil
}
