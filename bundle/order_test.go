package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/release"
)

// keepRelease records an unsigned release with a zip archive for each platform, and stores all of them. A release that is recorded already
// is renewed.
func (s *side) keepRelease(v modproxy.Ref, zips map[modproxy.Platform]string) {
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
	rec := modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: long, ProviderFacts: facts}
	if err := s.log.Add(s.t.Context(), rec); errors.Is(err, modproxy.ErrChanged) {
		rec.Reason = "packages were added"
		must(s.t, s.log.Accept(s.t.Context(), rec))
	} else {
		must(s.t, err)
	}
	must(s.t, s.cache.Keep(s.t.Context(), v, p))
	for platform, zip := range zips {
		digest := modproxy.Digest(sha256.Sum256([]byte(zip)))
		s.keepAs(v.ForPlatform(platform), &modproxy.Package{
			Body: modproxy.NewBody(nopCloser{bytes.NewReader([]byte(zip))}, digest), Digest: digest, Sum: modproxy.NewSum(digest), Size: int64(len(zip)), Time: long,
		}, modproxy.ProviderFacts{})
	}
}

// keepShared stores a version of a provider in two registries that share the package for Linux. One registry has a second package.
func (s *side) keepShared(version, beside string) {
	s.t.Helper()
	linux, darwin := modproxy.Platform{OS: "linux", Arch: "amd64"}, modproxy.Platform{OS: "darwin", Arch: "arm64"}
	s.keepRelease(modproxy.NewProvider("registry.acme.example", "acme", "toy").At(version), map[modproxy.Platform]string{linux: "PK shared"})
	s.keepRelease(modproxy.NewProvider("registry.beta.example", "acme", "toy").At(version), map[modproxy.Platform]string{linux: "PK shared", darwin: beside})
}

// shuffled returns a bundle with its packages, and the versions of each, in another order.
func shuffled(t testing.TB, a *side, b []byte, shuffle func(n int, swap func(i, j int))) []byte {
	return forge(t, a, b, func(l *lie) {
		shuffle(len(l.facts), func(i, j int) {
			l.facts[i], l.facts[j] = l.facts[j], l.facts[i]
			l.packages[i], l.packages[j] = l.packages[j], l.packages[i]
			l.index.Packages[i], l.index.Packages[j] = l.index.Packages[j], l.index.Packages[i]
		})
		for i, p := range l.index.Packages {
			shuffle(len(p.Versions), func(j, k int) {
				p.Versions[j], p.Versions[k] = p.Versions[k], p.Versions[j]
				l.facts[i].Versions[j], l.facts[i].Versions[k] = l.facts[i].Versions[k], l.facts[i].Versions[j]
			})
		}
	})
}

// Registries that share the package of a provider, as registry.terraform.io and registry.opentofu.org do, and versions that share one, all
// get it, at any position of the releases in the bundle.
func TestSharedPackage(t *testing.T) {
	a := newSide(t)
	for version, beside := range map[string]string{"1.0.0": "PK 1.0.0", "1.1.0": "PK 1.1.0"} {
		a.keepShared(version, beside)
	}
	for i := range 40 {
		a.keep(modproxy.Address{Host: "registry.bb.example", Namespace: "acme", Name: "network", System: "aws"}.At(fmt.Sprintf("1.%d.0", i)), fmt.Sprint(i))
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

// Exports put releases before the packages for their platforms, so that an import does not hold these back.
func TestReleasesFirst(t *testing.T) {
	a := newSide(t)
	a.keepShared("1.0.0", "PK beside")
	var order []bool
	for _, p := range a.head(a.export(nil)).Index.Packages {
		isZip := p.Versions[0].IsArchive()
		order = append(order, isZip)
	}
	if !slices.Equal(order, []bool{false, false, true, true}) {
		t.Errorf("zips are at %v", order)
	}
}

// A provider's package for a platform with the bytes of a module's package is a separate content.
func TestBytesOfBothKinds(t *testing.T) {
	a, b := newSide(t), newSide(t)
	p := a.packed("module")
	text, err := io.ReadAll(p)
	must(t, err)
	a.keep(network.At("1.0.0"), "module")
	a.keepRelease(toy.At("1.0.0"), map[modproxy.Platform]string{{OS: "linux", Arch: "amd64"}: string(text)})
	b.wantTake(a, a.export(nil), "added added added")
	if near, far := a.has(), b.has(); !slices.Equal(near, far) {
		t.Errorf("%v; want %v", far, near)
	}
}
