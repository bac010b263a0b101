package bundle

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
)

// A group is a set of versions that an import decides together, in the order of the exporting ledger, because the first version that is
// recorded here decides about the others. A group has the releases of one provider, where the first one determines the signing keys, or
// the spellings of one version, where the first one determines the content.
type group struct {
	unread int           // number of versions that were not read yet; only the goroutine that reads the bundle uses it
	done   chan struct{} // closed when all versions are decided

	mu      sync.Mutex
	missing int // number of versions that have not joined yet
	members []member
}

// A member is one version of an entry.
type member struct {
	*taking
	i int
}

func (m member) version() modproxy.Ref { return m.Versions[m.i].Ref }
func (m member) number() int64         { return m.Facts.Versions[m.i].Number }

// groupKey returns the key of the group that v belongs to or waits for.
func groupKey(v modproxy.Ref) modproxy.Ref {
	switch v.Kind() {
	case modproxy.Provider:
		return v.Address.At("")
	case modproxy.Module:
	}
	return v.Folded()
}

// groups returns the groups of an index.
func groups(index *Index) map[modproxy.Ref]*group {
	mixed := map[modproxy.Ref]bool{} // versions with a spelling that is not lower case
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
			switch v.Content() {
			case modproxy.ModuleContent:
				if !mixed[key] {
					continue
				}
			case modproxy.ArchiveContent:
				continue
			case modproxy.ReleaseContent, modproxy.KeysContent:
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

// groupOf returns the group that decides about a version, or nil. decides is false if the version is not a member and waits for the group.
func (x *imports) groupOf(m member) (g *group, decides bool) {
	v := m.version()
	return x.groups[groupKey(v)], !v.IsArchive()
}

// arrive notes that t was read. It returns for each version whether its whole group was read. The goroutine that reads the bundle calls it.
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

// join adds a version to its group. The last version to join decides all of them.
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
