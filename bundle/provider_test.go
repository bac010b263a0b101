package bundle_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/release"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

var toy = modproxy.NewProvider("registry.example.com", "acme", "toy")

// keepProvider records an unsigned release and its package for one platform, and stores both.
func (s *side) keepProvider(v modproxy.Ref) {
	s.t.Helper()
	platform := modproxy.Platform{OS: "linux", Arch: "amd64"}
	zip := []byte("PK " + v.String())
	file := fmt.Sprintf("terraform-provider-%s_%s_%s.zip", v.Name, v.Version, platform)
	r := &release.Release{
		Archives: []release.Archive{{Platform: platform, File: file, Digest: sha256.Sum256(zip)}},
		Sums:     fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(zip), file), Unsigned: true,
	}
	facts, errFacts := r.Facts()
	p, err := r.Pack(s.dir)
	must(s.t, errors.Join(err, errFacts))
	defer p.Close()
	s.keepAs(v, p, facts)
	digest := modproxy.Digest(sha256.Sum256(zip))
	s.keepAs(v.ForPlatform(platform), &modproxy.Package{
		Body: modproxy.NewBody(nopCloser{bytes.NewReader(zip)}, digest), Digest: digest, Sum: modproxy.NewSum(digest), Size: int64(len(zip)), Time: long,
	}, modproxy.ProviderFacts{})
}

func (s *side) keepAs(v modproxy.Ref, p *modproxy.Package, facts modproxy.ProviderFacts) {
	s.t.Helper()
	rec := modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: long, ProviderFacts: facts}
	must(s.t, errors.Join(s.log.Add(s.t.Context(), rec), s.cache.Keep(s.t.Context(), v, p)))
}

// signedBy configures one key as the signer of all releases.
type signedBy modproxy.Keys

func (k signedBy) Signers(modproxy.Address) (modproxy.Keys, bool) { return modproxy.Keys(k), true }

// A release without the signature of an allowed key is refused with its packages, and the other versions are imported.
func TestSigners(t *testing.T) {
	const key modproxy.Keys = "0123456789ABCDEF0123456789ABCDEF01234567"
	a := newSide(t)
	a.keepProvider(toy.At("1.0.0"))
	a.keep(modproxy.Address{Host: "registry.example.com", Namespace: "zeta", Name: "last", System: "aws"}.At("1.0.0"), "# last")
	b := a.export(nil)
	newSide(t).wantTake(a, b, "added added added")

	recorded := newSide(t)
	rec := key.Record(toy)
	rec.Time = long
	must(t, recorded.log.Add(t.Context(), rec))
	recorded.wantTake(a, b, "refused refused added")

	configured := newSide(t)
	x := configured.importer(a)
	x.Releases.Signers = signedBy(key)
	if got, err := states(x, t.Context(), b); err != nil || got != "refused refused added" {
		t.Errorf("%q, %v", got, err)
	}
}

// An unsigned release is refused with its packages, unless its provider may have unsigned releases.
func TestUnsigned(t *testing.T) {
	a, b := newSide(t), newSide(t)
	a.keepProvider(toy.At("1.0.0"))
	x := b.importer(a)
	x.Releases.Unsigned = nil
	_, items, err := x.Import(t.Context(), bytes.NewReader(a.export(nil)))
	must(t, err)
	if len(items) != 2 || items[0].State != bundle.Refused || items[1].State != bundle.Refused {
		t.Fatalf("%+v", items)
	}
	const want = "the registry lists no key that can be read (operator: if the registry signs none of its providers, providers.unsigned can allow them)"
	if !strings.Contains(items[0].Reason, want) {
		t.Errorf("%s", items[0].Reason)
	}
	if kept := b.kept(); len(kept) > 0 {
		t.Errorf("%v is kept", kept)
	}
}

// twoKeys returns a side with two releases of a provider, each with a package and its own key, and the keys.
func twoKeys(t *testing.T) (a *side, keys []modproxy.Keys) {
	t.Helper()
	u := registrytest.New(t, txtar.Parse([]byte("-- providers/acme/toy/1.0.0 --\nplatforms=linux_amd64\n-- providers/acme/toy/1.1.0 --\nplatforms=linux_amd64\nkey=another\nkeys=another\n")))
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.0/8"}, CAFile: u.CAFile, NoHedging: true})
	must(t, err)
	t.Cleanup(func() { out.Close() })
	client, err := upstream.New(upstream.Config{Egress: out, Fetch: &fetch.Table{}, Providers: upstream.Providers{Scratch: t.TempDir()}})
	must(t, err)
	a = newSide(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		v := modproxy.NewProvider(u.Host, "acme", "toy").At(version)
		p, err := client.Package(t.Context(), v)
		must(t, err)
		defer p.Close()
		zip, err := client.Package(t.Context(), v.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}))
		must(t, err)
		defer zip.Close()
		keys = append(keys, p.Facts.Keys)
		a.keepAs(v, p, p.Facts)
		a.keepAs(v.ForPlatform(modproxy.Platform{OS: "linux", Arch: "amd64"}), zip, zip.Facts)
	}
	return a, keys
}

// If the signing keys of a provider are unknown, the first release in the exporting ledger determines them. The message about the other
// releases names the command after which the next import accepts them.
func TestFirstKey(t *testing.T) {
	a, keys := twoKeys(t)
	whole := a.export(nil)
	for seed := range uint64(6) {
		b, mixed := newSide(t), shuffled(t, a, whole, rand.New(rand.NewPCG(seed, 1)).Shuffle)
		_, items, err := b.importer(a).Import(t.Context(), bytes.NewReader(mixed))
		must(t, err)
		if len(items) != 4 || items[0].State != bundle.Added || items[1].State != bundle.Added || items[2].State != bundle.Refused || items[3].State != bundle.Refused {
			t.Fatalf("%+v", items)
		}
		signed := a.kept()[0].Address
		if want := fmt.Sprintf("modproxy ledger accept %s --key %s ", signed, keys[1]); !strings.Contains(items[2].Reason, want) {
			t.Errorf("%s\nwant %s", items[2].Reason, want)
		}
		rec := keys[0].Union(keys[1]).Record(signed)
		rec.Time, rec.Reason = long, "the publisher says so"
		must(t, b.log.Accept(t.Context(), rec))
		b.wantTake(a, mixed, "kept kept added added")
	}
}

// A release signed by a key that is not allowed is refused with its packages, even if unsigned releases are allowed.
func TestWrongKey(t *testing.T) {
	a, keys := twoKeys(t)
	b := a.export(nil)
	for i, want := range []string{"added added refused refused", "refused refused added added"} {
		x := newSide(t).importer(a)
		x.Releases.Signers = signedBy(keys[i])
		if got, err := states(x, t.Context(), b); err != nil || got != want {
			t.Errorf("by key %d alone: %q, %v; want %q", i, got, err, want)
		}
	}
	// Recorded signing keys count if no keys are configured.
	recorded := newSide(t)
	rec := keys[1].Record(a.kept()[0].Address)
	rec.Time = long
	must(t, recorded.log.Add(t.Context(), rec))
	recorded.wantTake(a, b, "refused refused added added")
}

// A served bundle does not serve a release, or a package of one, that an import would refuse.
func TestOpenProvider(t *testing.T) {
	a := newSide(t)
	v, linux := toy.At("1.0.0"), modproxy.Platform{OS: "linux", Arch: "amd64"}
	a.keepProvider(v)
	a.keepProvider(toy.At("1.1.0"))
	whole, first := a.export(nil), a.export(nil, v)
	for _, c := range []struct {
		name         string
		file         []byte
		releases     bundle.Releases
		release, zip error
	}{
		{"all", whole, bundle.Releases{Unsigned: all{}}, nil, nil},
		{"signed ones", whole, bundle.Releases{}, modproxy.ErrInvalid, modproxy.ErrInvalid},
		{
			"those of a key", whole, bundle.Releases{Signers: signedBy("0123456789ABCDEF0123456789ABCDEF01234567"), Unsigned: all{}},
			modproxy.ErrDenied, modproxy.ErrDenied,
		},
		{"no release", a.export(a.head(first), v, v.ForPlatform(linux)), bundle.Releases{Unsigned: all{}}, modproxy.ErrNotFound, modproxy.ErrInvalid},
	} {
		r, err := bundle.Open(bytes.NewReader(c.file), int64(len(c.file)), a.trust(a), c.releases)
		must(t, err)
		for v, want := range map[modproxy.Ref]error{v: c.release, v.ForPlatform(linux): c.zip} {
			if p, err := r.Package(t.Context(), v); !errors.Is(err, want) {
				t.Errorf("%s: %s: %v, %v; want %v", c.name, v, p, err, want)
			}
		}
	}
	forged := forge(t, a, a.export(nil, v, v.ForPlatform(linux)), func(l *lie) {
		for i, p := range l.index.Packages {
			if p.Versions[0].IsArchive() {
				l.packages[i] = []byte("PK of nobody")
			}
		}
	})
	r, err := bundle.Open(bytes.NewReader(forged), int64(len(forged)), a.trust(a), bundle.Releases{Unsigned: all{}})
	must(t, err)
	if p, err := r.Package(t.Context(), v.ForPlatform(linux)); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("another package than that of its release: %v, %v", p, err)
	}
}
