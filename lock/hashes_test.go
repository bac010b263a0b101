package lock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/lockfile"
)

var toy = modproxy.NewProvider("registry.example.com", "acme", "toy")

// zh returns the hash of an archive. It ends in n.
func zh(n byte) string { return "zh:" + modproxy.Digest{31: n}.String() }

const (
	h1A = string(sumA)
	h1B = string(sumB)
)

var (
	linux   = modproxy.Platform{OS: "linux", Arch: "amd64"}
	darwin  = modproxy.Platform{OS: "darwin", Arch: "arm64"}
	windows = modproxy.Platform{OS: "windows", Arch: "amd64"}
)

// release adds a release to a ledger, with the h1 of some of its archives. The archive for linux is zh(1), the one for darwin
// zh(2), and a manifest is zh(9).
func release(t *testing.T, book *ledger.Log, v modproxy.Ref, h1 map[modproxy.Platform]modproxy.Hashes) {
	t.Helper()
	zips := map[modproxy.Platform]modproxy.Digest{linux: {31: 1}, darwin: {31: 2}}
	facts := modproxy.ProviderFacts{Zips: modproxy.NewZips(zips), Others: modproxy.NewDigests(modproxy.Digest{31: 9})}
	must(t, book.Add(t.Context(), ledger.Record{Ref: v, Sum: ledgertest.Sum("a"), Time: time.Now(), ProviderFacts: facts}))
	for platform, hashes := range h1 {
		facts := modproxy.ProviderFacts{Hashes: hashes}
		must(t, book.Add(t.Context(), ledger.Record{Ref: v.ForPlatform(platform), Sum: modproxy.NewSum(zips[platform]), Time: time.Now(), ProviderFacts: facts}))
	}
}

// ledgers returns a ledger as read from its directory, and as clients of a proxy read it.
func ledgers(t *testing.T, fill func(*ledger.Log)) map[string]lock.Ledger {
	book := ledgertest.Open(t, t.TempDir())
	fill(book)
	mux := http.NewServeMux()
	mux.Handle("/-/sumdb/modproxy/", http.StripPrefix("/-/sumdb/modproxy", sumdb.NewServer(book.ServerOps())))
	mux.HandleFunc("/-/sumdb/key", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, book.VerifierKey()+"\n") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	remote, err := lock.DialLedger(t.Context(), server.URL, "", "")
	must(t, err)
	return map[string]lock.Ledger{"local": book, "remote": remote}
}

func TestProvidersHashes(t *testing.T) {
	whole, partly := toy.At("1.0.0"), toy.At("1.1.0")
	h1C := string(ledgertest.Sum("c"))
	for name, book := range ledgers(t, func(book *ledger.Log) {
		release(t, book, whole, map[modproxy.Platform]modproxy.Hashes{linux: modproxy.NewHashes(sumA, ledgertest.Sum("c")), darwin: modproxy.NewHashes(sumB, sumB)})
		release(t, book, partly, map[modproxy.Platform]modproxy.Hashes{linux: modproxy.NewHashes(sumA, sumA)})
	}) {
		for _, test := range []struct {
			p         lockfile.Provider
			platforms []modproxy.Platform
			check     []string // expected text of each error of CheckProviders
			missing   []string
			refused   []string // expected text of each error of MissingHashes
		}{
			{p: lockfile.Provider{Ref: whole, Hashes: []string{h1A, h1B, h1C, zh(1), zh(2), zh(9)}}},
			{p: lockfile.Provider{Ref: whole, Hashes: []string{h1A, zh(1)}}, platforms: []modproxy.Platform{darwin, linux}, missing: []string{h1B, zh(2), zh(9)}},
			{p: lockfile.Provider{Ref: whole, Hashes: []string{h1B}}, platforms: []modproxy.Platform{linux}, missing: []string{h1A, zh(1), zh(2), zh(9)}},
			{p: lockfile.Provider{Ref: whole, Hashes: []string{h1A, zh(1), zh(3)}}, check: []string{zh(3) + " is locked, but the ledger"},
				missing: []string{zh(2), zh(9)}, refused: []string{zh(3)}},
			{p: lockfile.Provider{Ref: whole, Hashes: []string{string(ledgertest.Sum("x")), zh(1)}}, check: []string{"is locked, but the ledger"},
				missing: []string{zh(2), zh(9)}, refused: []string{"is locked, but the ledger"}},
			{p: lockfile.Provider{Ref: whole, Hashes: nil}, check: []string{"locked without hashes"}, platforms: []modproxy.Platform{linux},
				missing: []string{h1A, zh(1), zh(2), zh(9)}},
			// An archive that the ledger does not have may be the locked one.
			{p: lockfile.Provider{Ref: partly, Hashes: []string{h1B, zh(1)}}, platforms: []modproxy.Platform{linux},
				check:   []string{h1B + " is locked; the ledger has no h1 for darwin_arm64"},
				missing: []string{h1A, zh(2), zh(9)}},
			{p: lockfile.Provider{Ref: partly, Hashes: []string{h1B}}, platforms: []modproxy.Platform{linux}, check: []string{"no h1 for darwin_arm64"},
				missing: []string{h1A, zh(1), zh(2), zh(9)}, refused: []string{"no h1 for darwin_arm64"}},
			{p: lockfile.Provider{Ref: partly, Hashes: []string{zh(1)}}, platforms: []modproxy.Platform{darwin, windows},
				missing: []string{zh(2), zh(9)}, refused: []string{"no archive for windows_amd64", "no h1 for darwin_arm64"}},
			// The same name at another registry is another provider: OpenTofu treats one as the other.
			{p: lockfile.Provider{Ref: modproxy.NewProvider("registry.opentofu.org", "acme", "toy").At("1.0.0"), Hashes: []string{h1A}},
				check: []string{"it is locked, and the ledger has no record of it"}, refused: []string{"no record"}},
		} {
			agree := func(what string, errs []error, want []string) {
				t.Helper()
				ok := len(errs) == len(want)
				for i := range min(len(errs), len(want)) {
					ok = ok && strings.Contains(errs[i].Error(), want[i]) && strings.HasPrefix(errs[i].Error(), test.p.Ref.String()+": ")
				}
				if !ok {
					t.Errorf("%s: %s of %v: %v; want %q", name, what, test.p, errs, want)
				}
			}
			agree("CheckProviders", lock.CheckProviders(t.Context(), []lockfile.Provider{test.p}, book), test.check)
			missing, errs := lock.MissingHashes(t.Context(), test.p, test.platforms, book)
			agree("MissingHashes", errs, test.refused)
			if !slices.Equal(missing, test.missing) {
				t.Errorf("%s: %v lacks %q; want %q", name, test.p, missing, test.missing)
			}
		}
	}
}

// A record of other bytes than those of the release does not count for the release.
func TestProvidersHashesOfOthers(t *testing.T) {
	book := ledgertest.Open(t, t.TempDir())
	release(t, book, toy.At("1.0.0"), nil)
	must(t, book.Add(t.Context(), ledger.Record{Ref: toy.At("1.0.0").ForPlatform(linux), Sum: ledgertest.Sum("x"),
		Time: time.Now(), ProviderFacts: modproxy.ProviderFacts{Hashes: modproxy.Hashes(sumA)}}))
	p := lockfile.Provider{Ref: toy.At("1.0.0"), Hashes: []string{h1A, zh(1)}}
	if errs := lock.CheckProviders(t.Context(), []lockfile.Provider{p}, book); len(errs) != 1 || !strings.Contains(errs[0].Error(), "no h1 for darwin_arm64, linux_amd64") {
		t.Error(errs)
	}
}
