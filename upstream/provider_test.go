package upstream_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/release"
	"github.com/modproxy/modproxy/test/registrytest"
)

var linux = modproxy.Platform{OS: "linux", Arch: "amd64"}

func toyOf(u *registrytest.Upstream) modproxy.Address {
	return modproxy.NewProvider(u.Host, "acme", "toy")
}

func fixture(text string) *txtar.Archive { return txtar.Parse([]byte(text)) }

// TestProvider requests what clients request of a provider: its versions, a release, and a zip archive of it.
func TestProvider(t *testing.T) {
	u := registrytest.New(t, fixture(`
-- providers/acme/toy/1.0.0 --
-- providers/acme/toy/1.1.0 --
zip=directories
sums=manifest
`))
	client := newClient(t, u, nil)
	versions, err := client.Versions(t.Context(), toyOf(u))
	if err != nil {
		t.Fatal(err)
	}
	if listed, ok := versions.Find("1.0.0"); !ok || len(listed.Release().Platforms) < 2 || time.Since(versions.Time) > time.Minute {
		t.Errorf("versions %s", versions.Document)
	}
	for version, hashes := range map[string]int{"1.0.0": 1, "1.1.0": 2} {
		v := toyOf(u).At(version)
		if l, err := client.Location(t.Context(), v.ForPlatform(linux)); err != nil || l != (modproxy.Location{}) {
			t.Errorf("location %v, %v", l, err)
		}
		p, err := client.Package(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		r, err := release.Open(p)
		if err != nil || p.Close() != nil || len(r.Keys) != 1 || r.Unsigned {
			t.Fatalf("release %+v, %v", r, err)
		}
		zips := p.Facts.Zips
		if len(r.Archives) < 2 || p.Source.URL == "" || p.Facts.Keys.Check() != nil || len(p.Facts.Keys.All()) != 1 {
			t.Errorf("archives %v from %v", r.Archives, p.Source)
		}
		var others []modproxy.Digest
		if version == "1.1.0" {
			others = append(others, sha256.Sum256([]byte("terraform-provider-toy_1.1.0_")))
		}
		if p.Facts.Others != modproxy.NewDigests(others...) {
			t.Errorf("%s: others %q, want %v", version, p.Facts.Others, others)
		}
		for _, a := range r.Archives {
			p, err := client.Package(t.Context(), v.ForPlatform(a.Platform))
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(p)
			if err != nil || p.Close() != nil || int64(len(data)) != p.Size || sha256.Sum256(data) != p.Digest || p.Digest != a.Digest {
				t.Errorf("%v: %d bytes, %v; want the %d bytes of %v", a.Platform, len(data), err, p.Size, a.Digest)
			}
			facts, err := release.CheckZip(bytes.NewReader(data), p.Size, "toy", release.ZipLimits{})
			if err != nil || p.Sum != modproxy.NewSum(p.Digest) || p.Facts.Hashes != modproxy.NewHashes(facts.Dir, facts.Sum) || len(p.Facts.Hashes.All()) != hashes {
				t.Errorf("%v: sum %v, hashes %v; want %+v, %v", a.Platform, p.Sum, p.Facts.Hashes, facts, err)
			}
			if digest, ok := zips.Of(a.Platform); digest != a.Digest || !ok {
				t.Errorf("%v: %v is not in %v", a.Platform, a.Digest, zips)
			}
		}
	}
	// The release has named one zip archive already.
	if asked, zips := u.Count(registrytest.ProviderDownload), u.Count(registrytest.Zip); asked != zips || u.Count(registrytest.Sums) != 2 {
		t.Errorf("%d questions for %d zips", asked, zips)
	}
}

// The dates of releases are those of their valid signatures.
func TestProviderDates(t *testing.T) {
	u := registrytest.New(t, fixture(`
-- providers/acme/toy/1.0.0 --
-- providers/acme/toy/1.1.0 --
signature=wrong
-- providers/acme/toy/1.2.0 --
sums.status=404
-- providers/acme/toy/1.3.0 --
platforms=darwin_arm64
-- providers/acme/toy/1.4.0 --
-- providers/acme/toy/1.5.0 --
-- providers/acme/busy/1.0.0 --
sums.status=429
sums.retry-after=60
-- providers/acme/busy/1.1.0 --
`))
	client := newClient(t, u, nil)
	dates, err := published(t.Context(), client, toyOf(u), []string{"1.5.0", "9.0.0", "1.3.0", "1.2.0", "1.1.0", "1.0.0"})
	signed := time.Date(2024, 1, 2, 3, 4, 6, 0, time.UTC)
	if diff := cmp.Diff(map[string]time.Time{"1.5.0": signed, "1.3.0": signed, "1.0.0": signed}, dates); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	if n := u.Count(registrytest.Zip); n > 0 {
		t.Errorf("%d zips were asked for", n)
	}
	dates, err = published(t.Context(), client, modproxy.NewProvider(u.Host, "acme", "busy"), []string{"1.1.0", "1.0.0"})
	if !errors.Is(err, modproxy.ErrUnavailable) || !dates["1.1.0"].Equal(signed) {
		t.Errorf("of one in trouble: %v, %v", dates, err)
	}
}

// No registry is asked for variants of a provider version.
func TestProviderMade(t *testing.T) {
	u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\n"))
	client := newClient(t, u, nil)
	for _, v := range []modproxy.Ref{toyOf(u).SigningKeys(), toyOf(u).At("1.0.0").With(modproxy.UnknownVariant, "x")} {
		if _, err := client.Package(t.Context(), v); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("%v: %v", v, err)
		}
	}
	if n := len(u.Requests()); n > 0 {
		t.Errorf("%d requests", n)
	}
}
