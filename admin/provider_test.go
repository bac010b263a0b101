package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

var (
	toy   = modproxy.NewProvider("registry.example.com", "acme", "toy")
	linux = modproxy.Platform{OS: "linux", Arch: "amd64"}
)

const (
	oldKey = "0123456789ABCDEF0123456789ABCDEF01234567"
	newKey = "89ABCDEF0123456789ABCDEF0123456789ABCDEF"
)

// TestNamesOfProviders: a name has the module or provider, the version and the platform, and no mark of a derived package.
func TestNamesOfProviders(t *testing.T) {
	zip := toy.At("1.0.0").ForPlatform(linux)
	for v, want := range map[modproxy.Ref]struct {
		name  versionname.Name
		shown string
	}{
		toy.At(""):      {versionname.Name{Module: toy.String()}, "registry.example.com/acme/toy"},
		toy.At("1.0.0"): {versionname.Name{Module: toy.String(), Version: "1.0.0"}, "registry.example.com/acme/toy 1.0.0"},
		zip:             {versionname.Name{Module: toy.String(), Version: "1.0.0", Platform: "linux_amd64"}, "registry.example.com/acme/toy 1.0.0 for linux_amd64"},
		vpc.At("1.0.0"): {versionname.Name{Module: vpc.String(), Version: "1.0.0"}, "registry.example.com/acme/vpc/aws 1.0.0"},
	} {
		name := versionname.Of(v)
		if again, err := name.Parse(""); name != want.name || name.Shown() != want.shown || err != nil || again != v {
			t.Errorf("%s: %+v, %q, %v, %v", v, name, name.Shown(), again, err)
		}
	}
	if name := versionname.Of(toy.SigningKeys()); name.Shown() != "registry.example.com/acme/toy signing keys" || name.ShownVersion() != "signing keys" {
		t.Errorf("%q, %q", name.Shown(), name.ShownVersion())
	}
	for _, bad := range []versionname.Name{
		{Module: toy.String(), Platform: "linux_amd64"}, {Module: vpc.String(), Version: "1.0.0", Platform: "linux_amd64"},
		{Module: toy.String(), Version: "1.0.0", Platform: "linux"},
	} {
		if _, err := bad.Parse(""); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestAcceptOfProviders: accepting a release records its archives and keys as they were offered. Only offered content can be
// accepted.
func TestAcceptOfProviders(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	when, one := time.Unix(2e9, 0).UTC(), toy.At("1.0.0")
	keys, err := modproxy.NewKeys(oldKey)
	must(t, err)
	facts := func(digest byte) modproxy.ProviderFacts {
		return modproxy.ProviderFacts{Zips: modproxy.NewZips(map[modproxy.Platform]modproxy.Digest{linux: {digest}}), Keys: keys}
	}
	signing := keys.Record(toy)
	signing.Time = when
	must(t, book.Add(t.Context(), signing))
	must(t, book.Add(t.Context(), ledger.Record{Ref: one, Sum: ledgertest.Sum("a"), Time: when, ProviderFacts: facts(1)}))
	must(t, book.Add(t.Context(), ledger.Record{Ref: one.ForPlatform(linux), Sum: modproxy.NewSum([32]byte{1}), Time: when}))
	must(t, book.AddDrift(t.Context(), ledger.Drift{
		Ref: one, Recorded: ledgertest.Sum("a"), Offered: ledgertest.Sum("b"), Time: when, ProviderFacts: facts(2),
	}))
	memory := &forgetter{}
	c, ctx := outside(t, &admin.Server{Ledger: book, Cache: memory}), t.Context()

	for _, bad := range []admin.AcceptRequest{
		{Name: versionname.Of(one), Sum: ledgertest.Sum("c"), Reason: "never offered"},
		{Name: versionname.Of(one.ForPlatform(linux)), Sum: modproxy.NewSum([32]byte{2}), Reason: "a package alone"},
		{Name: versionname.Of(toy.SigningKeys()), Sum: ledgertest.Sum("c"), Reason: "keys by their sum"},
		{Name: versionname.Of(one), Key: newKey, Reason: "a key of a version"},
		{Name: versionname.Of(vpc.At("")), Key: newKey, Reason: "a key of a module"},
		{Name: versionname.Of(toy.At("")), Key: "beef", Reason: "no key"},
	} {
		if _, err := admin.LedgerAccept.Call(ctx, c, bad, nil); err == nil || !strings.HasPrefix(err.Error(), "invalid: ") {
			t.Errorf("%s: %v", bad.Reason, err)
		}
	}
	out, err := admin.LedgerAccept.Call(ctx, c, admin.AcceptRequest{Name: versionname.Of(one), Sum: ledgertest.Sum("b"), Reason: "announced"}, nil)
	rec, errLookup := book.Lookup(ctx, one)
	if err != nil || errLookup != nil || !out.Offered || rec.ProviderFacts != facts(2) {
		t.Errorf("accepted %+v, %v; recorded %+v, %v", out, err, rec, errLookup)
	}
	out, err = admin.LedgerAccept.Call(ctx, c, admin.AcceptRequest{Name: versionname.Of(one), Sum: ledgertest.Sum("a"), Reason: "it is back"}, nil)
	if rec, errLookup = book.Lookup(ctx, one); err != nil || errLookup != nil || !out.Offered || rec.ProviderFacts != facts(1) {
		t.Errorf("accepted %+v, %v; recorded %+v, %v", out, err, rec, errLookup)
	}
	out, err = admin.LedgerAccept.Call(ctx, c, admin.AcceptRequest{Name: versionname.Of(toy.At("")), Key: newKey, Reason: "announced"}, nil)
	rec, errLookup = book.Lookup(ctx, toy.SigningKeys())
	if err != nil || errLookup != nil || out.Offered || rec.Keys != oldKey+" "+newKey || rec.Sum != rec.Keys.Record(toy).Sum {
		t.Errorf("accepted %+v, %v; recorded %+v, %v", out, err, rec, errLookup)
	}
	if n := len(memory.forgotten); n != 3 || memory.forgotten[n-1] != toy.At("") {
		t.Errorf("forgotten %v", memory.forgotten)
	}

	list, err := drifts(ctx, c, admin.LedgerQuery{Name: versionname.Of(one)})
	if err != nil || len(list) != 1 || list[0].ProviderFacts != facts(2) || list[0].Was != facts(1) {
		t.Errorf("drift %+v, %v", list, err)
	}
	n := 0
	_, err = admin.LedgerRecords.Call(ctx, c, admin.LedgerQuery{Name: versionname.Of(one)}, func(admin.Record) error { n++; return nil })
	if err != nil || n != 4 { // the records of the version include the package for a platform
		t.Errorf("%d records, %v", n, err)
	}
}
