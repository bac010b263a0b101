package disk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// Rebuilt is what [Rebuild] has found and made.
type Rebuilt struct {
	Problem   string   `json:"problem,omitempty"`   // what is wrong with the index that was there; empty: nothing that its head shows
	Aside     string   `json:"aside,omitempty"`     // the file that it is in now
	Packages  int      `json:"packages"`            // package records in the new index
	Found     int      `json:"found"`               // of them those that were only in the old one
	Versions  int      `json:"versions"`            // modules with the list of their versions
	Damaged   []string `json:"damaged,omitempty"`   // files of records that were damaged, and set aside
	Conflicts []string `json:"conflicts,omitempty"` // versions of which the old index and the copy beside it have different sums
	Absent    int      `json:"absent"`              // packages that are recorded and not there; they are fetched again
	Orphans   int      `json:"orphans"`             // packages that are there and not recorded
}

// Rebuild makes the index of a directory anew: from the copies of the package
// records that are beside it, and from the records in the old index that are
// whole, whatever else it is. The lists of versions are in the old index only. The
// old index is kept in the quarantine, as evidence. Nothing else is changed, but
// for copies that are missing or damaged.
//
// Of two records of a version the one counts whose sum pinned says, else the copy:
// it is written first. Nil: nobody is asked.
//
// No process may have the directory open; that one does is an error as long as it
// holds the index. It can be interrupted and run again. An index that is that of
// another directory gives nothing to the new one.
func Rebuild(ctx context.Context, dir string, pinned func(m modproxy.Module, version string) (modproxy.Sum, error)) (Rebuilt, error) {
	r := &rebuild{
		pinned: pinned,
		Store:  &Store{dir: dir, sync: (*os.File).Sync, fans: map[string]bool{}},
		old:    oldIndex{packages: map[string]oldPackage{}, versions: map[modproxy.Module]oldVersions{}},
		seen:   map[string]modproxy.Sum{}, digests: map[modproxy.Digest]bool{},
	}
	err := r.run(ctx)
	if err != nil {
		err = fmt.Errorf("rebuild of %s: %w", dir, err)
	}
	return r.out, err
}

// rebuild is one in the making. Its Store has no index.
type rebuild struct {
	*Store
	pinned  func(m modproxy.Module, version string) (modproxy.Sum, error)
	out     Rebuilt
	old     oldIndex
	seen    map[string]modproxy.Sum // by the names of their sidecars
	digests map[modproxy.Digest]bool
	index   *writer
}

func (r *rebuild) run(ctx context.Context) (err error) {
	for _, name := range []string{blobsName, packagesName, quarantineName, tempName} {
		if err := r.makeDir(r.path(name)); err != nil {
			return err
		}
	}
	if err := r.readLayout(); errors.Is(err, errLayout) {
		r.out.Problem = err.Error()
		aside, err := r.setAside(r.path(layoutName))
		if err != nil {
			return err
		}
		r.out.Damaged = append(r.out.Damaged, aside)
	} else if err != nil {
		return err
	}
	release, err := r.readOld()
	if err != nil {
		return err
	}
	defer release()
	if r.index, err = r.newWriter(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.index.discard()) }()
	for _, step := range []func(context.Context) error{r.addSidecars, r.addFound, r.addVersions, r.addUses} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return r.replace()
}

// addSidecars adds the records that have a copy.
func (r *rebuild) addSidecars(ctx context.Context) error {
	for name, err := range r.sidecars {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		value, kept, err := r.readSidecar(name)
		if err != nil && !passing(err) {
			aside, err := r.setAside(r.sidecarPath(name))
			if err != nil {
				return err
			}
			r.out.Damaged = append(r.out.Damaged, aside)
			continue
		}
		if err != nil {
			return err
		}
		if old, ok := r.old.packages[name]; ok && old.sum != kept.Record.Sum {
			if r.counts(kept, old.sum) && !r.counts(kept, kept.Record.Sum) {
				r.conflict(kept, old.sum, kept.Record.Sum, "the copy beside the index")
				continue // it is added with those that have no copy
			}
			r.conflict(kept, kept.Record.Sum, old.sum, "the old index")
		}
		if err := r.add(name, kept, value); err != nil {
			return err
		}
	}
	return nil
}

func (r *rebuild) counts(kept cache.Kept, sum modproxy.Sum) bool {
	return counts(r.pinned, kept.Module, kept.Version, sum)
}

func (r *rebuild) conflict(kept cache.Kept, is, other modproxy.Sum, where string) {
	r.out.Conflicts = append(r.out.Conflicts, fmt.Sprintf("%s %s: %s, and %s in %s", kept.Module, kept.Version, is, other, where))
}

func (r *rebuild) add(name string, kept cache.Kept, value []byte) error {
	r.seen[name] = kept.Record.Sum
	r.digests[kept.Record.Digest] = true
	r.out.Packages++
	return r.index.put(packagesBucket, packageKey(kept.Module, kept.Version), value)
}

// addFound adds those that the old index has and that have no copy that counts, and
// makes one.
func (r *rebuild) addFound(ctx context.Context) error {
	for name, old := range r.old.packages {
		if _, ok := r.seen[name]; ok {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := old.read(r.old.file)
		if err != nil {
			return err
		}
		kept, err := unsealPackage(value)
		if err != nil {
			return err // it was whole a moment ago
		}
		if err := r.writeSidecar(name, value); err != nil {
			return err
		}
		if err := r.add(name, kept, value); err != nil {
			return err
		}
		r.out.Found++
	}
	return nil
}

func (r *rebuild) addVersions(ctx context.Context) error {
	for m, old := range r.old.versions {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := old.read(r.old.file)
		if err != nil {
			return err
		}
		if err := r.index.put(versionsBucket, moduleKey(m), value); err != nil {
			return err
		}
		r.out.Versions++
	}
	return nil
}

// addUses marks the packages that are not there as evicted: what has become of
// them nobody knows any more.
func (r *rebuild) addUses(ctx context.Context) error {
	absent := maps.Clone(r.digests)
	for blob, err := range r.All() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		delete(absent, blob.Digest)
		if !r.digests[blob.Digest] {
			r.out.Orphans++
		}
	}
	for d := range absent {
		r.out.Absent++
		value := sealUse(cache.Use{Digest: d, Last: time.UnixMilli(0), Evicted: true})
		if err := r.index.put(usesBucket, d[:], value); err != nil {
			return err
		}
	}
	return nil
}

// replace puts the new index in the old one's place. A crash in between leaves one
// of the two, of which either is refused or in order.
func (r *rebuild) replace() error {
	slices.Sort(r.out.Conflicts)
	is := identity{r.layout.Directory, max(r.layout.Generation, r.old.about.Generation) + 1}
	if is.Directory == "" {
		is.Directory = r.old.about.Directory
	}
	if is.Directory == "" {
		is.Directory = rand.Text()
	}
	temp, err := r.index.finish(aboutIndex{is, r.out.Packages})
	if err != nil {
		return err
	}
	name := r.path(indexName)
	switch {
	case r.old.file != nil:
		r.out.Aside, err = r.linkAside(name)
	case r.old.lost:
		r.out.Aside, err = r.setAside(name)
	}
	if err != nil {
		return err
	}
	if err := r.rename(temp, name); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writeLayout(layout{layoutVersion, is})
}

// linkAside is setAside for a file that stays where it is.
func (s *Store) linkAside(path string) (string, error) {
	for n := 1; ; n++ {
		aside := s.path(quarantineName, fmt.Sprintf("%s.%d", indexName, n))
		err := os.Link(path, aside)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		return aside, s.flushDir(s.path(quarantineName))
	}
}
