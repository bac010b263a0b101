package ledger_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

var (
	toy   = modproxy.NewProvider("registry.example.com", "acme", "toy")
	linux = modproxy.Platform{OS: "linux", Arch: "amd64"}
	mac   = modproxy.Platform{OS: "darwin", Arch: "arm64"}
)

const (
	oldKey = "0123456789ABCDEF0123456789ABCDEF01234567"
	newKey = "89ABCDEF0123456789ABCDEF0123456789ABCDEF"
)

// providers contains the current packages of a provider registry.
type providers struct {
	commitless // without a registry: those methods must not be called
	packages   map[modproxy.Ref]modproxy.Package
	closed     int
}

func (u *providers) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p, ok := u.packages[v]
	if !ok {
		return nil, &modproxy.Error{Op: "package", Ref: v, Err: modproxy.ErrNotFound}
	}
	p.Body = providerBody{strings.NewReader("bytes"), u}
	return &p, nil
}

type providerBody struct {
	*strings.Reader
	u *providers
}

func (providerBody) Verify(context.Context) error { return nil }

func (b providerBody) Close() error { b.u.closed++; return nil }

// release publishes a version with archives for platforms, signed by key; an empty key means unsigned.
func (u *providers) release(t *testing.T, version, sum, key string, archives map[modproxy.Platform]modproxy.Digest) {
	t.Helper()
	p := modproxy.Package{Sum: ledgertest.Sum(sum), Facts: modproxy.ProviderFacts{Zips: modproxy.NewZips(archives)}}
	if key != "" {
		var err error
		if p.Facts.Keys, err = modproxy.NewKeys(key); err != nil {
			t.Fatal(err)
		}
	}
	u.packages[toy.At(version)] = p
	for platform, digest := range archives {
		u.packages[toy.At(version).ForPlatform(platform)] = modproxy.Package{
			Digest: digest, Sum: modproxy.NewSum(digest), Facts: modproxy.ProviderFacts{Hashes: modproxy.Hashes(ledgertest.Sum("files"))},
		}
	}
}

func newProviders(book ledger.Ledger) (*providers, *ledger.Registry) {
	u := &providers{packages: map[modproxy.Ref]modproxy.Package{}}
	return u, &ledger.Registry{Next: u, Ledger: book}
}

func wants(t *testing.T, reg *ledger.Registry, v modproxy.Ref, want error, words ...string) {
	t.Helper()
	p, err := reg.Package(t.Context(), v)
	if err == nil {
		p.Close()
	}
	if !errors.Is(err, want) {
		t.Fatalf("%s: %v, want %v", v, err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: error %q does not say %q", v, err, w)
		}
	}
}

func recordOf(t *testing.T, book ledger.Ledger, v modproxy.Ref) ledger.Record {
	t.Helper()
	rec, err := book.Lookup(t.Context(), v)
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return rec
}

func drifts(t *testing.T, book ledger.Ledger) (list []ledger.Drift) {
	t.Helper()
	for d, err := range book.Drifts(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, d)
	}
	return list
}

// TestReleasesAreCompared: a release may gain archives, and must keep the recorded ones.
func TestReleasesAreCompared(t *testing.T) {
	book := mustOpen(t, t.TempDir())
	u, reg := newProviders(book)
	var kinds []ledger.Kind
	reg.Observe = func(e ledger.Event) { kinds = append(kinds, e.Kind) }
	one := toy.At("1.0.0")

	u.release(t, "1.0.0", "first", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {1}})
	wants(t, reg, one.ForPlatform(linux), modproxy.ErrUnavailable, "its release is not recorded")
	wants(t, reg, one, nil)
	wants(t, reg, one, nil)
	wants(t, reg, one.ForPlatform(linux), nil)
	if rec := recordOf(t, book, one.ForPlatform(linux)); rec.Hashes == "" || rec.Sum != modproxy.NewSum([32]byte{1}) {
		t.Errorf("recorded %+v", rec)
	}

	u.release(t, "1.0.0", "wider", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {1}, mac: {2}})
	wants(t, reg, one.ForPlatform(mac), modproxy.ErrChanged, "no package for darwin_arm64")
	wants(t, reg, one, nil)
	rec := recordOf(t, book, one)
	if rec.Reason != "packages were added for darwin_arm64" || rec.Sum != ledgertest.Sum("wider") {
		t.Errorf("recorded %+v", rec)
	}
	wants(t, reg, one.ForPlatform(mac), nil)
	u.release(t, "1.0.0", "again", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {1}, mac: {2}})
	wants(t, reg, one, modproxy.ErrUnavailable, "within 1h") // a registry may answer differently every time

	for sum, archives := range map[string]map[modproxy.Platform]modproxy.Digest{
		"changed": {linux: {3}, mac: {2}}, "narrower": {mac: {2}},
	} {
		u.release(t, "1.0.0", sum, oldKey, archives)
		wants(t, reg, one, modproxy.ErrChanged, "for linux_amd64 differ", "modproxy ledger drift")
	}
	if list := drifts(t, book); len(list) != 2 || list[0].Ref != one || list[0].Zips == "" || list[0].Keys != oldKey {
		t.Errorf("drifts %+v", list)
	}
	want := []ledger.Kind{ledger.Recorded, ledger.Recorded, ledger.Renewed, ledger.Recorded, ledger.Drifted, ledger.Drifted}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

// TestArchivesAreCompared: drift of an archive is recorded as drift of its release, if the release differs.
func TestArchivesAreCompared(t *testing.T) {
	book := mustOpen(t, t.TempDir())
	u, reg := newProviders(book)
	one := toy.At("1.0.0")
	u.release(t, "1.0.0", "first", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {1}, mac: {2}})
	wants(t, reg, one, nil)
	wants(t, reg, one.ForPlatform(linux), nil)

	other := modproxy.Package{Digest: modproxy.Digest{9}, Sum: modproxy.NewSum([32]byte{9})}
	u.packages[one.ForPlatform(linux)] = other
	u.packages[one.ForPlatform(mac)] = other
	wants(t, reg, one.ForPlatform(linux), modproxy.ErrChanged, "linux_amd64", string(modproxy.NewSum([32]byte{9})))
	if list := drifts(t, book); len(list) != 0 {
		t.Errorf("drifts %+v", list) // the release itself is unchanged
	}
	u.release(t, "1.0.0", "second", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {8}, mac: {9}})
	wants(t, reg, one.ForPlatform(mac), modproxy.ErrChanged, "modproxy ledger drift")
	list := drifts(t, book)
	if len(list) != 1 || list[0].Ref != one || list[0].Offered != ledgertest.Sum("second") {
		t.Fatalf("drifts %+v", list)
	}

	rec := ledger.Record{
		Ref: one, Sum: list[0].Offered, ProviderFacts: list[0].ProviderFacts, Time: time.Now(), Reason: "it was announced",
	}
	if err := book.Accept(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	wants(t, reg, one, nil)
	wants(t, reg, one.ForPlatform(linux), nil)
	wants(t, reg, one.ForPlatform(mac), nil)
	if rec := recordOf(t, book, one.ForPlatform(linux)); rec.Sum != modproxy.NewSum([32]byte{8}) || rec.Reason == "" || rec.Hashes == "" {
		t.Errorf("recorded %+v", rec)
	}
	if u.closed != 9 {
		t.Errorf("%d packages were closed", u.closed)
	}
}

// TestArrivalsAreCompared: a package in download is compared twice: its digest before anything is read, and its content at the
// end.
func TestArrivalsAreCompared(t *testing.T) {
	book := mustOpen(t, t.TempDir())
	u, reg := newProviders(book)
	zip := toy.At("1.0.0").ForPlatform(linux)
	u.release(t, "1.0.0", "first", oldKey, map[modproxy.Platform]modproxy.Digest{linux: {1}})
	wants(t, reg, toy.At("1.0.0"), nil)

	facts := modproxy.ProviderFacts{Hashes: modproxy.Hashes(ledgertest.Sum("files"))}
	coming := modproxy.Package{Digest: modproxy.Digest{1}, Sum: modproxy.NewSum([32]byte{1}), Partial: comes{facts, modproxy.ErrUnavailable}}
	u.packages[zip] = coming
	p, err := reg.Package(t.Context(), zip)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Partial.Complete(t.Context()); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("arrived: %v, want ErrUnavailable", err)
	}
	if _, err := book.Lookup(t.Context(), zip); err == nil {
		t.Error("what did not arrive is recorded")
	}
	coming.Partial = comes{facts, nil}
	u.packages[zip] = coming
	if p, err = reg.Package(t.Context(), zip); err != nil {
		t.Fatal(err)
	}
	if _, err := book.Lookup(t.Context(), zip); err == nil {
		t.Error("what has yet to come is recorded")
	}
	for range 2 {
		if got, err := p.Partial.Complete(t.Context()); err != nil || got != facts {
			t.Errorf("arrived: %v, %v", got, err)
		}
	}
	if rec := recordOf(t, book, zip); rec.ProviderFacts != facts {
		t.Errorf("recorded %+v", rec)
	}
	coming.Digest = modproxy.Digest{7}
	u.packages[zip] = coming
	wants(t, reg, zip, modproxy.ErrChanged)
}

type comes struct {
	facts modproxy.ProviderFacts
	err   error
}

func (c comes) Complete(context.Context) (modproxy.ProviderFacts, error) { return c.facts, c.err }
func (c comes) Open(context.Context) (modproxy.Body, error)              { return nil, modproxy.ErrInvalid }

// TestSignersAreCompared: the keys of a provider's first release must sign all others.
func TestSignersAreCompared(t *testing.T) {
	book := mustOpen(t, t.TempDir())
	u, reg := newProviders(book)
	archives := map[modproxy.Platform]modproxy.Digest{linux: {1}}
	u.release(t, "0.9.0", "unsigned", "", archives)
	wants(t, reg, toy.At("0.9.0"), nil)
	u.release(t, "1.0.0", "first", oldKey, archives)
	wants(t, reg, toy.At("1.0.0"), nil)
	if rec := recordOf(t, book, toy.SigningKeys()); rec.Keys != oldKey {
		t.Errorf("recorded %+v", rec)
	}
	wants(t, reg, toy.At("0.9.0"), nil) // recorded before the keys were
	u.release(t, "0.9.1", "unsigned too", "", archives)
	wants(t, reg, toy.At("0.9.1"), modproxy.ErrChanged, "not signed", "the key "+oldKey)

	u.release(t, "1.1.0", "second", newKey, archives)
	for range 2 {
		wants(t, reg, toy.At("1.1.0"), modproxy.ErrChanged, "the key "+newKey, "the key "+oldKey,
			"modproxy ledger accept registry.example.com/acme/toy --key "+newKey)
	}
	if list := drifts(t, book); len(list) != 1 || list[0].Ref != toy.SigningKeys() || list[0].Keys != newKey {
		t.Errorf("drifts %+v", list)
	}
	u.release(t, "1.0.0", "first by another", newKey, map[modproxy.Platform]modproxy.Digest{linux: {1}, mac: {2}})
	wants(t, reg, toy.At("1.0.0"), modproxy.ErrChanged, "--key "+newKey)

	rec := modproxy.Keys(oldKey).Union(newKey).Record(toy)
	rec.Time, rec.Reason = time.Now(), "they have announced it"
	if err := book.Accept(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
	wants(t, reg, toy.At("1.1.0"), nil)
	wants(t, reg, toy.At("1.0.0"), nil)
}

// TestSignersOfConfiguration: configured keys count, regardless of the recorded ones.
func TestSignersOfConfiguration(t *testing.T) {
	book := mustOpen(t, t.TempDir())
	u, reg := newProviders(book)
	archives := map[modproxy.Platform]modproxy.Digest{linux: {1}}
	u.release(t, "1.0.0", "first", oldKey, archives)
	wants(t, reg, toy.At("1.0.0"), nil)
	reg.Signers = signers{newKey}
	wants(t, reg, toy.At("1.0.0"), nil) // already recorded
	u.release(t, "1.1.0", "second", oldKey, archives)
	wants(t, reg, toy.At("1.1.0"), modproxy.ErrDenied, "providers.keys", "the key "+oldKey, "the key "+newKey)
	u.release(t, "1.2.0", "third", newKey, archives)
	wants(t, reg, toy.At("1.2.0"), nil)
	u.release(t, "1.3.0", "fourth", "", archives)
	wants(t, reg, toy.At("1.3.0"), modproxy.ErrDenied, "signed by no key")
}

type signers struct{ modproxy.Keys }

func (s signers) Signers(modproxy.Address) (modproxy.Keys, bool) { return s.Keys, true }

// TestReleasesArePublishedAnew: a registry may republish the signed documents of a release once in renewWithin, with the same
// packages.
func TestReleasesArePublishedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := ledgertest.NewMemory()
		u, reg := newProviders(book)
		archives := map[modproxy.Platform]modproxy.Digest{linux: {1}}
		for i, sum := range []string{"a", "b", "c"} {
			u.release(t, "1.0.0", sum, oldKey, archives)
			if i == 2 {
				wants(t, reg, toy.At("1.0.0"), modproxy.ErrUnavailable)
				time.Sleep(time.Hour)
			}
			wants(t, reg, toy.At("1.0.0"), nil)
		}
		if rec := recordOf(t, book, toy.At("1.0.0")); rec.Sum != ledgertest.Sum("c") || rec.Reason == "" {
			t.Errorf("recorded %+v", rec)
		}
	})
}
