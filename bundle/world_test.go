package bundle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/test/rig"
)

// A world is the random state of a connected side: modules and providers of two or three registries, with many shared packages.
type world struct {
	*rand.Rand
	near       *side
	registries int
	contents   map[modproxy.Ref]string // of modules, by address in lower case
	releases   map[modproxy.Ref]map[modproxy.Platform]string
	chain      [][]byte
	seen       map[string]int // covered situations
}

var worldPlatforms = []modproxy.Platform{{OS: "darwin", Arch: "arm64"}, {OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

func newWorld(t testing.TB, seed uint64, seen map[string]int) *world {
	return &world{
		Rand: rand.New(rand.NewPCG(seed, 1)), near: newSide(t), registries: 2 + int(seed%2), seen: seen,
		contents: map[modproxy.Ref]string{}, releases: map[modproxy.Ref]map[modproxy.Platform]string{},
	}
}

func (w *world) grow() {
	for range 3 + w.IntN(6) {
		host := fmt.Sprintf("registry%d.example.com", w.IntN(w.registries))
		name, version := fmt.Sprint("n", w.IntN(2)), fmt.Sprintf("1.%d.0", w.IntN(3))
		if w.IntN(3) == 0 {
			w.growModule(modproxy.Address{Host: host, Namespace: []string{"acme", "acme", "Acme"}[w.IntN(3)], Name: name, System: "aws"}.At(version))
		} else {
			w.growRelease(modproxy.NewProvider(host, "acme", name).At(version))
		}
	}
}

func (w *world) content() string { return fmt.Sprint("PK ", w.IntN(4)) }

// growModule stores a version of a module in a new spelling, or accepts other content for it.
func (w *world) growModule(v modproxy.Ref) {
	address := v.Folded()
	content, known := w.contents[address]
	_, err := w.near.log.Lookup(w.near.t.Context(), v)
	stored := slices.Contains(w.near.kept(), v)
	switch {
	case !known:
		w.contents[address] = w.content()
		w.near.keep(v, w.contents[address])
	case err != nil, !stored: // another spelling
		w.near.keep(v, content)
	case !slices.ContainsFunc(w.near.kept(), func(o modproxy.Ref) bool { return o != v && o.Address.Folded().At(o.Version) == address }):
		w.contents[address] = content + " accepted"
		w.near.accept(v, w.contents[address])
	}
}

// growRelease stores a release of a provider, or more packages of a stored one.
func (w *world) growRelease(v modproxy.Ref) {
	zips := w.releases[v]
	if zips == nil {
		zips = map[modproxy.Platform]string{}
		w.releases[v] = zips
	}
	for _, p := range worldPlatforms {
		if zips[p] == "" && w.IntN(2) == 0 {
			zips[p] = w.content()
		}
	}
	if len(zips) > 0 {
		w.near.keepRelease(v, zips)
	}
}

// export continues the chain with all stored versions or some of them. As in exports of earlier versions of modproxy, the order varies,
// and a release may be missing.
func (w *world) export() {
	t := w.near.t
	t.Helper()
	var since *bundle.Head
	if len(w.chain) > 0 {
		since = w.near.head(w.chain[len(w.chain)-1])
	}
	selected := w.near.kept()
	if some := slices.DeleteFunc(slices.Clone(selected), func(modproxy.Ref) bool { return w.IntN(4) == 0 }); since != nil && w.IntN(2) == 0 && len(some) > 0 {
		selected = some
	}
	b := w.near.export(since, selected...)
	if w.IntN(3) > 0 {
		b = shuffled(t, w.near, b, w.Shuffle)
	}
	if w.IntN(4) == 0 {
		b = w.withoutRelease(b)
	}
	w.chain = append(w.chain, b)
}

// withoutRelease returns a bundle without one of the releases of its packages.
func (w *world) withoutRelease(b []byte) []byte {
	return forge(w.near.t, w.near, b, func(l *lie) {
		for i, p := range l.index.Packages {
			v := p.Versions[0]
			if v.IsProvider() && !v.IsArchive() && len(p.Versions) == 1 && len(l.facts) > 1 {
				w.seen["a bundle without a release"]++
				l.facts, l.packages, l.index.Packages = slices.Delete(l.facts, i, i+1), slices.Delete(l.packages, i, i+1), slices.Delete(l.index.Packages, i, i+1)
				return
			}
		}
	})
}

// dyingCache ends an import after a number of packages.
type dyingCache struct {
	bundle.Cache
	left  atomic.Int64
	after bool // fail after the package is stored, instead of before
	die   func()
}

func (c *dyingCache) Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error {
	dies := c.left.Add(-1) == 0
	if dies && !c.after {
		c.die()
	}
	err := c.Cache.Keep(ctx, v, p)
	if dies {
		c.die()
	}
	return err
}

// interrupt imports a part of the last bundle.
func (w *world) interrupt(far *side) {
	ctx, cancel := context.WithCancel(w.near.t.Context())
	defer cancel()
	b, x := w.chain[len(w.chain)-1], far.importer(w.near)
	switch w.IntN(3) {
	case 0:
		b = b[:w.IntN(len(b))]
	default:
		c := &dyingCache{Cache: far.cache, after: w.IntN(2) == 0, die: cancel}
		c.left.Store(1 + int64(w.IntN(8)))
		x.Cache = c
	}
	got, err := states(x, ctx, b)
	switch {
	case err != nil:
		w.seen["a killed import"]++
	case ctx.Err() != nil && strings.Contains(got, "refused"):
		w.near.t.Fatalf("a killed import has refused something: %s", got)
	}
}

// refuse imports the last bundle without unsigned releases and the packages that need them.
func (w *world) refuse(far *side) {
	x := far.importer(w.near)
	x.NewChain, x.Releases.Unsigned = true, nil
	got, err := states(x, w.near.t.Context(), w.chain[len(w.chain)-1])
	must(w.near.t, err)
	if strings.Contains(got, "refused") {
		w.seen["an import that refuses"]++
	}
}

var (
	importAgain  = regexp.MustCompile(`bundle ([0-9]+) \(([0-9a-f]+)\) and is not (?:stored any more|recorded): import that bundle again`)
	exportFirst  = regexp.MustCompile(`export (\S+)@(\S+), and import that`)
	acceptAdvice = `"modproxy ledger drift" shows it, and the command that accepts it`
)

// complete imports the last bundle and follows the advice of each message, until an import gives no advice.
func (w *world) complete(far *side) {
	t := w.near.t
	t.Helper()
	number := len(w.chain)
	for try := 0; ; try++ {
		refused := w.take(far, w.chain[number-1])
		if len(refused) == 0 {
			return
		}
		if try > 100 {
			t.Fatalf("bundle %d, after %d imports: %+v", number, try, refused)
		}
		for _, i := range refused {
			w.follow(far, i)
		}
	}
}

// take imports a bundle and returns the refused items.
func (w *world) take(far *side, b []byte) (refused []bundle.Item) {
	w.near.t.Helper()
	x := far.importer(w.near)
	_, items, err := x.Import(w.near.t.Context(), bytes.NewReader(b))
	if err != nil && strings.Contains(err.Error(), "use --new-chain to import it anyway") {
		w.seen["--new-chain"]++
		x.NewChain = true
		_, items, err = x.Import(w.near.t.Context(), bytes.NewReader(b))
	}
	must(w.near.t, err)
	return slices.DeleteFunc(items, func(i bundle.Item) bool { return i.State != bundle.Refused && i.State != bundle.Absent })
}

// follow follows the advice of a message about a version, except advice to import the same bundle again.
func (w *world) follow(far *side, i bundle.Item) {
	t := w.near.t
	t.Helper()
	again, export := importAgain.FindStringSubmatch(i.Reason), exportFirst.FindStringSubmatch(i.Reason)
	switch {
	case again != nil:
		w.seen["import that again"]++
		if strings.Contains(i.Reason, "then this one") {
			w.seen["then this one"]++
		}
		n, err := strconv.Atoi(again[1])
		must(t, err)
		if id := w.near.head(w.chain[n-1]).ID.String(); id != again[2] {
			t.Fatalf("bundle %d is %s: %+v", n, id, i)
		}
		for _, also := range w.take(far, w.chain[n-1]) {
			w.follow(far, also)
		}
	case export != nil:
		w.seen["export, and import that"]++
		v := slices.IndexFunc(w.near.kept(), func(v modproxy.Ref) bool { return v.Address.String() == export[1] && v.FullVersion() == export[2] })
		release := w.near.kept()[v]
		selected := slices.DeleteFunc(w.near.kept(), func(v modproxy.Ref) bool { return v != release && (!v.IsArchive() || v.Base() != release) })
		if also := w.take(far, w.near.export(nil, selected...)); len(also) > 0 {
			t.Fatalf("advised by %+v: %+v", i, also)
		}
	case strings.Contains(i.Reason, acceptAdvice):
		w.seen["ledger accept"]++
		for d, err := range far.log.Drifts(t.Context()) {
			must(t, err)
			if d.Address.String() == i.Module && d.Version == i.Version {
				must(t, far.log.Accept(t.Context(), modproxy.Record{
					Ref: d.Ref, Sum: d.Offered, Subdir: ".", Source: d.Source, Time: long, Reason: "they have looked", ProviderFacts: d.ProviderFacts,
				}))
			}
		}
	default:
		t.Fatalf("no advice: %+v", i)
	}
}

// want lists the versions in bundles that the last bundle, or the selection of the chain, still has.
func (w *world) want() (list []string) {
	selected := map[string]bool{}
	head := w.near.head(w.chain[len(w.chain)-1])
	for _, p := range head.Index.Packages {
		for _, v := range p.Versions {
			selected[v.String()] = true
		}
	}
	for _, b := range head.Index.Before {
		selected[b.Version.String()] = !b.Gone
	}
	return slices.DeleteFunc(w.near.has(), func(line string) bool {
		v := line[:strings.LastIndex(line, " ")]
		return !selected[v]
	})
}

// has lists the versions of a side that count and can be read.
func (s *side) has() (list []string) {
	s.t.Helper()
	for l, err := range s.cache.List(s.t.Context(), modproxy.Address{}) {
		must(s.t, err)
		if !l.Superseded && s.cache.IsStored(s.t.Context(), l.Ref, l.Sum) {
			list = append(list, l.String()+" "+string(l.Sum))
		}
	}
	slices.Sort(list)
	return list
}

// The result of imports does not depend on the order of the content in bundles, or on where imports were interrupted. The advice of
// messages leads to everything that the exporting side selected.
func TestAnyOrder(t *testing.T) {
	seeds := []uint64{0, 3, 5, 6, 10} // cover all situations below
	if rig.Long() {
		seeds = seeds[:0]
		for seed := range uint64(100) {
			seeds = append(seeds, seed)
		}
	}
	seen := map[string]int{}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w, far := newWorld(t, seed, seen), newSide(t)
			for range 4 {
				w.grow()
				if len(w.near.kept()) == 0 {
					continue
				}
				w.export()
				for range w.IntN(3) {
					w.interrupt(far)
				}
				if w.IntN(3) == 0 && len(w.chain) < 4 {
					w.refuse(far)
					continue
				}
				w.complete(far)
				have := far.has()
				for _, want := range w.want() {
					if !slices.Contains(have, want) {
						t.Fatalf("after bundle %d, without %s:\n%s", len(w.chain), want, strings.Join(have, "\n"))
					}
				}
				for _, v := range far.kept() { // the next import names lost packages and their remedy
					if w.IntN(6) == 0 {
						if _, err := far.cache.Discard(t.Context(), v); !errors.Is(err, fs.ErrNotExist) { // it was removed with its release
							must(t, err)
						}
					}
				}
			}
			temps(t, far.dir)
		})
	}
	for _, situation := range []string{
		"a killed import", "an import that refuses", "a bundle without a release", "import that again", "then this one", "export, and import that", "ledger accept", "--new-chain",
	} {
		if seen[situation] == 0 {
			t.Errorf("%s: never; seen: %v", situation, slices.Sorted(maps.Keys(seen)))
		}
	}
}
