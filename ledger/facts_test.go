package ledger_test

import (
	"errors"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// TestFacts: the record of a provider contains its facts, and a record that would compare equal with everything is refused.
func TestFacts(t *testing.T) {
	linux := modproxy.Platform{OS: "linux", Arch: "amd64"}
	toy := modproxy.NewProvider("registry.example.com", "acme", "toy")
	sum, now := modproxy.NewSum([32]byte{1}), time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	zips := modproxy.NewZips(map[modproxy.Platform]modproxy.Digest{linux: {2}})
	keys, err := modproxy.NewKeys("0123456789abcdef0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	release, zip := toy.At("1.0.0"), toy.At("1.0.0").ForPlatform(linux)
	module := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}.At("1.0.0")
	for _, test := range []struct {
		v     modproxy.Ref
		facts modproxy.ProviderFacts
		good  bool
	}{
		{release, modproxy.ProviderFacts{Zips: zips, Keys: keys}, true},
		{release, modproxy.ProviderFacts{Zips: zips}, true},
		{release, modproxy.ProviderFacts{Zips: zips, Keys: keys, Others: modproxy.NewDigests(modproxy.Digest{4})}, true},
		{release, modproxy.ProviderFacts{Zips: zips, Others: "x"}, false},
		{release, modproxy.ProviderFacts{}, false},
		{release, modproxy.ProviderFacts{Zips: zips, Hashes: modproxy.Hashes(sum)}, false},
		{release, modproxy.ProviderFacts{Zips: "x"}, false},
		{zip, modproxy.ProviderFacts{Hashes: modproxy.Hashes(sum)}, true},
		{zip, modproxy.ProviderFacts{}, true},
		{zip, modproxy.ProviderFacts{Zips: zips}, false},
		{zip, modproxy.ProviderFacts{Others: modproxy.NewDigests(modproxy.Digest{4})}, false},
		{toy.SigningKeys(), modproxy.ProviderFacts{Keys: keys}, true},
		{toy.SigningKeys(), modproxy.ProviderFacts{}, false},
		{module, modproxy.ProviderFacts{}, true},
		{module, modproxy.ProviderFacts{Keys: keys}, false},
	} {
		r := ledger.Record{Ref: test.v, Sum: sum, Time: now, ProviderFacts: test.facts}
		text, err := ledger.FormatRecord(r)
		if !test.good {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%s %+v: %v", test.v, test.facts, err)
			}
			continue
		}
		if again, errParse := ledger.ParseRecord(text); err != nil || errParse != nil || again != r {
			t.Errorf("%s %+v: %v, %v, %+v", test.v, test.facts, err, errParse, again)
		}
		d := ledger.Drift{Ref: test.v, Recorded: sum, Offered: modproxy.NewSum([32]byte{3}), Time: now, ProviderFacts: test.facts}
		text, err = ledger.FormatDrift(d)
		if again, errParse := ledger.ParseDrift(text); err != nil || errParse != nil || again != d {
			t.Errorf("%s %+v: %v, %v, %+v", test.v, test.facts, err, errParse, again)
		}
	}
}
