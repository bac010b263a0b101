package upstream_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

// scratchOf sets the client's scratch directory to one of the test, and checks at the end that it is empty.
func scratchOf(t *testing.T) func(*upstream.Config) {
	scratch := t.TempDir()
	t.Cleanup(func() {
		if left, err := os.ReadDir(scratch); len(left) > 0 || err != nil {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
	return func(c *upstream.Config) { c.Providers.Scratch = scratch }
}

// An interrupted zip download continues, with the rest of the archive or with all of it again.
func TestZipBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		knobs registrytest.Knobs
		asked []string // the Range of each request
		want  string   // in the error
	}{
		"once":  {registrytest.Knobs{Truncate: 50, Times: 1}, []string{"", "bytes=50-"}, ""},
		"twice": {registrytest.Knobs{Truncate: 50, Times: 2}, []string{"", "bytes=50-", "bytes=100-"}, ""},
		"whole": {registrytest.Knobs{Truncate: 50, Times: 2, Whole: true}, []string{"", "bytes=50-", "bytes=50-"}, ""},
		"often": {registrytest.Knobs{Truncate: 50, Times: 9}, []string{"", "bytes=50-", "bytes=100-", "bytes=150-", "bytes=200-"}, "unexpected EOF"},
	} {
		for _, ctx := range []context.Context{t.Context(), modproxy.AllowPartial(t.Context())} {
			t.Run(name, func(t *testing.T) {
				t.Parallel() // most of the time, a pause passes
				u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\n"))
				client := newClient(t, u, nil, scratchOf(t))
				u.Set(registrytest.Zip, c.knobs)
				p, data, err := fetchAll(ctx, client, toyOf(u).At("1.0.0").ForPlatform(linux))
				switch {
				case c.want != "":
					if err == nil || !strings.Contains(err.Error(), c.want) {
						t.Errorf("%d bytes, %v; want %q", len(data), err, c.want)
					}
				case err != nil || sha256.Sum256(data) != p.Digest:
					t.Errorf("%d bytes, %v", len(data), err)
				}
				var asked []string
				for _, r := range u.Requests() {
					if r.Kind == registrytest.Zip {
						asked = append(asked, r.Header.Get("Range"))
					}
				}
				if strings.Join(asked, ",") != strings.Join(c.asked, ",") {
					t.Errorf("asked for %q; want %q", asked, c.asked)
				}
			})
		}
	}
}

// arrive calls p.Arrived in the background. wait returns its result.
func arrive(t *testing.T, p *modproxy.Package) (wait func() (modproxy.ProviderFacts, error)) {
	var facts modproxy.ProviderFacts
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		facts, err = p.Partial.Complete(t.Context())
	}()
	return func() (modproxy.ProviderFacts, error) {
		<-done
		return facts, err
	}
}

// If the archive changes between two tries, the result is an error, not a mixture.
func TestZipChangesMidway(t *testing.T) {
	const files = "-- providers/acme/toy/1.0.0/terraform-provider-toy --\n"
	for text, knobs := range map[string]registrytest.Knobs{
		"the second time with something else": {Truncate: 80, Bandwidth: 100, Whole: true},
		"but the registry says":               {Truncate: 80, Bandwidth: 100, Times: 1},
	} {
		u := registrytest.New(t, fixture(files+strings.Repeat("one ", 100)))
		client := newClient(t, u, nil, scratchOf(t))
		v := toyOf(u).At("1.0.0")
		if _, _, err := fetchAll(t.Context(), client, v); err != nil { // yields the URL of the zip archive
			t.Fatal(err)
		}
		u.Set(registrytest.Zip, knobs)
		p, err := client.Package(modproxy.AllowPartial(t.Context()), v.ForPlatform(linux))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		wait := arrive(t, p)
		if err := u.LoadArchive(fixture(files + strings.Repeat("two ", 100))); err != nil {
			t.Fatal(err)
		}
		data, errRead := io.ReadAll(p)
		if _, err := wait(); err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, errors.Unwrap(errRead)) {
			t.Errorf("%d bytes, %v, arrived: %v; want %q", len(data), errRead, err, text)
		}
	}
}

// During the download, a reader receives the beginning at once, and the end after the check.
func TestZipArrives(t *testing.T) {
	for knobs, want := range map[string]error{"": nil, "zip=changed": modproxy.ErrInvalid, "zip=text": modproxy.ErrInvalid} {
		t.Run(knobs, func(t *testing.T) {
			u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\nsize=1\n"+knobs+"\n"))
			client := newClient(t, u, nil, scratchOf(t))
			u.Set(registrytest.Zip, registrytest.Knobs{Bandwidth: 4 << 20})
			p, err := client.Package(modproxy.AllowPartial(t.Context()), toyOf(u).At("1.0.0").ForPlatform(linux))
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.Digest.IsZero() || p.Sum != modproxy.NewSum(p.Digest) || p.Size == 0 || p.Facts != (modproxy.ProviderFacts{}) {
				t.Errorf("package %+v", p)
			}
			arrived := make(chan struct{})
			wait := arrive(t, p)
			go func() {
				defer close(arrived)
				wait()
			}()
			again, err := p.Partial.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if _, err := p.Read(make([]byte, 1)); err != nil {
				t.Error(err)
			}
			select {
			case <-arrived:
				if knobs != "zip=text" { // this archive is short
					t.Error("its beginning came when all of it was there")
				}
			default:
			}
			data, err := io.ReadAll(again)
			if !errors.Is(err, want) {
				t.Errorf("%d bytes, %v; want %v", len(data), err, want)
			}
			facts, err := wait()
			if !errors.Is(err, want) || (facts.Hashes != "") != (want == nil) {
				t.Errorf("arrived: %v, %v; want %v", facts, err, want)
			}
			if want == nil && (int64(len(data)) != p.Size || sha256.Sum256(data) != p.Digest) {
				t.Errorf("%d bytes", len(data))
			}
		})
	}
}

// A download ends with the context of its request, or when the package is closed before.
func TestZipGivenUp(t *testing.T) {
	u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\nsize=1\n"))
	client := newClient(t, u, nil, scratchOf(t))
	v := toyOf(u).At("1.0.0").ForPlatform(linux)
	u.Set(registrytest.Zip, registrytest.Knobs{Bandwidth: 1 << 10})
	for _, isClosed := range []bool{false, true} {
		ctx, cancel := context.WithCancel(modproxy.AllowPartial(t.Context()))
		p, err := client.Package(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		if isClosed {
			p.Close()
		}
		time.AfterFunc(10*time.Millisecond, cancel)
		if facts, err := p.Partial.Complete(ctx); !errors.Is(err, modproxy.ErrUnavailable) || !isClosed && !errors.Is(err, context.Canceled) {
			t.Errorf("closed %v: %v, %v", isClosed, facts, err)
		}
		p.Close()
	}
}

// The limits of received and unpacked bytes hold.
func TestZipLimits(t *testing.T) {
	u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\nsize=1\n"))
	v := toyOf(u).At("1.0.0").ForPlatform(linux)
	for text, limit := range map[string]func(*upstream.Config){
		"larger than allowed": func(c *upstream.Config) { c.Providers.MaxReceived = 1 << 19 },
		"more content than":   func(c *upstream.Config) { c.Providers.MaxUnpacked = 1 << 19 },
	} {
		for _, ctx := range []context.Context{t.Context(), modproxy.AllowPartial(t.Context())} {
			_, data, err := fetchAll(ctx, newClient(t, u, nil, scratchOf(t), limit), v)
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %d bytes, %v", text, len(data), err)
			}
		}
	}
}

// Platforms that file names do not show are requested once each, however often the registry lists them.
func TestOddNames(t *testing.T) {
	u := registrytest.New(t, fixture(`
-- providers/acme/toy/1.0.0 --
names=odd
platforms=darwin_arm64,freebsd_386,linux_amd64,darwin_arm64
-- providers/acme/toy/1.1.0 --
platforms=darwin_arm64,freebsd_386
`))
	if _, _, err := fetchAll(t.Context(), newClient(t, u, nil), toyOf(u).At("1.0.0")); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("other names that are not allowed: %v", err)
	}
	client := newClient(t, u, nil, func(c *upstream.Config) { c.Providers.OtherNames = namespace("acme") })
	for version, want := range map[string]int{"1.0.0": 3, "1.1.0": 2} {
		p, _, err := fetchAll(t.Context(), client, toyOf(u).At(version))
		if err != nil {
			t.Fatal(err)
		}
		all, err := p.Facts.Zips.All()
		if err != nil || len(all) != want {
			t.Errorf("%s: %v, %v; want %d", version, all, err, want)
		}
	}
}
