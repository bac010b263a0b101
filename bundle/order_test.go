package bundle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
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
	"github.com/modproxy/modproxy/release"
	"github.com/modproxy/modproxy/test/rig"
)

// keepRelease records a release that nobody has signed with a zip archive for each platform, and stores all of them. A release
// that is recorded already is renewed.
func (s *side) keepRelease(v modproxy.ModuleVersion, zips map[modproxy.Platform]string) {
	s.t.Helper()
	r := &release.Release{Unsigned: true}
	for _, p := range slices.SortedFunc(maps.Keys(zips), func(a, b modproxy.Platform) int { return strings.Compare(a.String(), b.String()) }) {
		file, digest := fmt.Sprintf("terraform-provider-%s_%s_%s.zip", v.Name, v.Version, p), sha256.Sum256([]byte(zips[p]))
		r.Archives = append(r.Archives, release.Archive{Platform: p, File: file, Digest: digest})
		r.Sums = fmt.Appendf(r.Sums, "%x  %s\n", digest, file)
	}
	facts, errFacts := r.Facts()
	p, err := r.Pack(s.dir)
	must(s.t, errors.Join(err, errFacts))
	defer p.Close()
	rec := modproxy.Record{ModuleVersion: v, Sum: p.Sum, Subdir: ".", Time: long, Facts: facts}
	if err := s.log.Add(s.t.Context(), rec); errors.Is(err, modproxy.ErrChanged) {
		rec.Reason = "packages were added"
		must(s.t, s.log.Accept(s.t.Context(), rec))
	} else {
		must(s.t, err)
	}
	must(s.t, s.cache.Keep(s.t.Context(), v, p))
	for platform, zip := range zips {
		digest := modproxy.Digest(sha256.Sum256([]byte(zip)))
		s.keepAs(v.OfPlatform(platform), &modproxy.Package{
			ReadSeekCloser: nopCloser{bytes.NewReader([]byte(zip))}, Digest: digest, Sum: modproxy.NewSum(digest), Size: int64(len(zip)), Time: long,
		}, modproxy.Facts{})
	}
}

// keepShared stores a version of a provider in two registries, which share the package for Linux. One has another package beside.
func (s *side) keepShared(version, beside string) {
	s.t.Helper()
	linux, darwin := modproxy.Platform{OS: "linux", Arch: "amd64"}, modproxy.Platform{OS: "darwin", Arch: "arm64"}
	s.keepRelease(modproxy.NewProvider("registry.acme.example", "acme", "toy").At(version), map[modproxy.Platform]string{linux: "PK shared"})
	s.keepRelease(modproxy.NewProvider("registry.beta.example", "acme", "toy").At(version), map[modproxy.Platform]string{linux: "PK shared", darwin: beside})
}

// shuffled returns a bundle with its packages in another order.
func shuffled(t testing.TB, a *side, b []byte, shuffle func(n int, swap func(i, j int))) []byte {
	return forge(t, a, b, func(l *lie) {
		shuffle(len(l.facts), func(i, j int) {
			l.facts[i], l.facts[j] = l.facts[j], l.facts[i]
			l.packages[i], l.packages[j] = l.packages[j], l.packages[i]
			l.index.Packages[i], l.index.Packages[j] = l.index.Packages[j], l.index.Packages[i]
		})
	})
}

// Registries that share the package of a provider, as registry.terraform.io and registry.opentofu.org do, and versions of one
// that do: each has it, wherever the releases are in the bundle.
func TestSharedPackage(t *testing.T) {
	a := newSide(t)
	for version, beside := range map[string]string{"1.0.0": "PK 1.0.0", "1.1.0": "PK 1.1.0"} {
		a.keepShared(version, beside)
	}
	for i := range 40 {
		a.keep(modproxy.Module{Host: "registry.bb.example", Namespace: "acme", Name: "network", System: "aws"}.At(fmt.Sprintf("1.%d.0", i)), fmt.Sprint(i))
	}
	whole, want := a.export(nil), strings.TrimSpace(strings.Repeat("added ", 50))
	b := newSide(t)
	b.wantTake(a, whole, want)
	if !slices.Equal(b.kept(), a.kept()) {
		t.Errorf("kept: %v", b.kept())
	}
	backwards := func(n int, swap func(i, j int)) {
		for i := range n / 2 {
			swap(i, n-1-i)
		}
	}
	zipFirst := shuffled(t, a, whole, backwards)
	newSide(t).wantTake(a, zipFirst, want)
}

// releases come before the packages for their platforms, so that an import need not hold these back.
func TestReleasesFirst(t *testing.T) {
	a := newSide(t)
	a.keepShared("1.0.0", "PK beside")
	var order []bool
	for _, p := range a.head(a.export(nil)).Index.Packages {
		_, _, isZip := p.Versions[0].Platform()
		order = append(order, isZip)
	}
	if !slices.Equal(order, []bool{false, false, true, true}) {
		t.Errorf("zips are at %v", order)
	}
}

// A world is what a connected side has by chance: modules and providers of three registries, of which many share packages.
type world struct {
	*rand.Rand
	near     *side
	releases map[modproxy.ModuleVersion]map[modproxy.Platform]string
}

var worldPlatforms = []modproxy.Platform{{OS: "darwin", Arch: "arm64"}, {OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

func (w *world) grow() {
	content := func() string { return fmt.Sprint("PK ", w.IntN(4)) }
	for range 2 + w.IntN(6) {
		host := fmt.Sprintf("registry%d.example.com", w.IntN(3))
		name, version := fmt.Sprint("n", w.IntN(2)), fmt.Sprintf("1.%d.0", w.IntN(3))
		if w.IntN(3) == 0 {
			v := modproxy.Module{Host: host, Namespace: "acme", Name: name, System: "aws"}.At(version)
			if _, err := w.near.log.Lookup(w.near.t.Context(), v); err != nil {
				w.near.keep(v, content())
			}
			continue
		}
		v := modproxy.NewProvider(host, "acme", name).At(version)
		zips := w.releases[v]
		if zips == nil {
			zips = map[modproxy.Platform]string{}
			w.releases[v] = zips
		}
		for _, p := range worldPlatforms {
			if zips[p] == "" && w.IntN(2) == 0 {
				zips[p] = content()
			}
		}
		if len(zips) > 0 {
			w.near.keepRelease(v, zips)
		}
	}
}

// shuffled shuffles a bundle, or leaves it as it was exported.
func (w *world) shuffled(b []byte) []byte {
	if w.IntN(3) == 0 {
		return b
	}
	return shuffled(w.near.t, w.near, b, w.Shuffle)
}

// dyingCache ends an import after so many packages.
type dyingCache struct {
	bundle.Cache
	left atomic.Int64
	die  func()
}

func (c *dyingCache) Keep(ctx context.Context, v modproxy.ModuleVersion, p *modproxy.Package) error {
	if c.left.Add(-1) == 0 {
		c.die()
	}
	return c.Cache.Keep(ctx, v, p)
}

// interrupt imports a part of a bundle.
func (w *world) interrupt(far *side, b []byte) {
	ctx, cancel := context.WithCancel(w.near.t.Context())
	defer cancel()
	x, c := far.importer(w.near), &dyingCache{Cache: far.cache, die: cancel}
	c.left.Store(int64(w.IntN(8)))
	x.Cache = c
	if w.IntN(2) == 0 {
		b = b[:w.IntN(len(b))]
	}
	states(x, ctx, b)
}

var importAgain = regexp.MustCompile(`bundle ([0-9]+) .*import that again`)

// complete imports a bundle and follows the advice of what it says. chain has the bundle and those before it.
func (w *world) complete(far *side, chain [][]byte) {
	t := w.near.t
	t.Helper()
	for try, again := 1, []int{len(chain)}; len(again) > 0; try++ {
		number := again[0]
		again = again[1:]
		_, items, err := far.importer(w.near).Import(t.Context(), bytes.NewReader(chain[number-1]))
		if err != nil || try > 4*len(chain) {
			t.Fatalf("import of bundle %d, try %d: %v", number, try, err)
		}
		for _, i := range items {
			advice := importAgain.FindStringSubmatch(i.Reason)
			switch {
			case i.State != bundle.Refused && i.State != bundle.Absent:
			case advice == nil:
				t.Fatalf("bundle %d: no advice: %+v", number, i)
			default:
				n, _ := strconv.Atoi(advice[1])
				again = append(slices.DeleteFunc(again, func(m int) bool { return m == n || m == number }), n, number)
			}
		}
	}
}

// has lists what counts and can be read on a side.
func (s *side) has() (list []string) {
	s.t.Helper()
	for l, err := range s.cache.List(s.t.Context(), modproxy.Module{}) {
		must(s.t, err)
		if !l.Superseded && s.cache.Holds(s.t.Context(), l.ModuleVersion, l.Sum) {
			list = append(list, l.String()+" "+string(l.Sum))
		}
	}
	slices.Sort(list)
	return list
}

// The outcome of imports does not depend on the order of what is in bundles, nor on where imports were interrupted, and what
// messages advise leads to all that the other side has.
func TestAnyOrder(t *testing.T) {
	rounds := uint64(5)
	if rig.Long() {
		rounds = 100
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{rand.New(rand.NewPCG(seed, 1)), newSide(t), map[modproxy.ModuleVersion]map[modproxy.Platform]string{}}
			far := newSide(t)
			var chain [][]byte
			for range 3 {
				w.grow()
				var since *bundle.Head
				if len(chain) > 0 {
					since = w.near.head(chain[len(chain)-1])
				}
				if len(w.near.kept()) == 0 {
					continue
				}
				chain = append(chain, w.shuffled(w.near.export(since)))
				for range w.IntN(3) {
					w.interrupt(far, chain[len(chain)-1])
				}
				w.complete(far, chain)
				if near, far := w.near.has(), far.has(); !slices.Equal(near, far) {
					t.Fatalf("after bundle %d: %s\nwant\n%s", len(chain), strings.Join(far, "\n"), strings.Join(near, "\n"))
				}
				for _, v := range far.kept() { // what is lost is named by the next import, with what brings it back
					if w.IntN(6) == 0 {
						_, err := far.cache.Discard(t.Context(), v)
						must(t, err)
						break
					}
				}
			}
			temps(t, far.dir)
		})
	}
}
