package upstream_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/release"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

// fetchAll downloads the package of v and reads it, during the download if ctx allows it.
func fetchAll(ctx context.Context, c *upstream.Client, v modproxy.Ref) (*modproxy.Package, []byte, error) {
	p, err := c.Package(ctx, v)
	if err != nil {
		return nil, nil, err
	}
	var group errgroup.Group
	if modproxy.AllowsPartial(ctx) != (p.Partial != nil) && v.IsArchive() {
		return nil, nil, errors.New("it comes, or it does not")
	}
	if p.Partial != nil {
		group.Go(func() (err error) {
			p.Facts, err = p.Partial.Complete(ctx)
			return err
		})
	}
	data, err := io.ReadAll(p)
	return p, data, errors.Join(group.Wait(), err, p.Close())
}

// TestProviderFaults checks the errors for faulty releases and zip archives. An empty text means no error.
func TestProviderFaults(t *testing.T) {
	const unreadable = "must let everybody read what the registry"
	tests := []struct {
		knobs        string
		release, zip string // contained in the errors
		want         error  // the kind of both errors
	}{
		{"", "", "", nil},
		{"zip=changed", "", "but the registry says", modproxy.ErrInvalid},
		{"zip=truncated", "", "not a valid zip file", modproxy.ErrInvalid},
		{"zip=text", "", "not a valid zip file", modproxy.ErrInvalid},
		{"sums=wrong", "SHA256SUMS: it has the checksum", "", modproxy.ErrInvalid},
		{"sums=missing", "SHA256SUMS: it has no line", "", modproxy.ErrInvalid},
		{"sums=blank", "", "", nil}, // harms only clients, and not through a mirror
		{"sums=many", "SHA256SUMS: it lists 900 other files", "", modproxy.ErrInvalid},
		{"sums=large", "larger than allowed", "", modproxy.ErrInvalid},
		{"signature=wrong", "signature of SHA256SUMS", "", modproxy.ErrInvalid},
		{"signature=armored", "it is armored", "", modproxy.ErrInvalid},
		{"signature=empty", "signature of SHA256SUMS", "", modproxy.ErrInvalid},
		{"key=another\nkeys=publisher", "not made by a key that the registry lists", "", modproxy.ErrInvalid},
		{"keys=another,publisher", "", "", nil},
		{"keys=", "lists no key", "", modproxy.ErrInvalid},
		{"keys=null", "lists no key", "", modproxy.ErrInvalid},
		{"keys=broken", "lists no key", "", modproxy.ErrInvalid},
		{"keys=null,broken,publisher", "", "", nil},
		{"key=expired", "", "", nil},
		{"protocols=[]", "", "", nil},
		{`protocols=["4.0,5.0"]`, "the protocol", "the protocol", modproxy.ErrInvalid},
		{"provider-download.status=404", "404 Not Found", "404 Not Found", modproxy.ErrNotFound},
		{"provider-download.status=401", "401 Unauthorized (operator: set upstreams[].token for ", "401 Unauthorized (operator: set upstreams[].token for ", modproxy.ErrDenied},
		{"provider-download.status=403", "403 Forbidden (operator: set upstreams[].token for ", "403 Forbidden (operator: set upstreams[].token for ", modproxy.ErrDenied},
		{"provider-download.status=409", "409 Conflict", "409 Conflict", modproxy.ErrUnavailable},
		{"sums.status=404", "SHA256SUMS answered 404 Not Found", "", modproxy.ErrUnavailable},
		{"signature.status=404", "sig answered 404 Not Found", "", modproxy.ErrUnavailable},
		{"sums.status=403", unreadable, "", modproxy.ErrDenied},
		{"sums.status=429\nsums.retry-after=60", "429 Too Many Requests", "", modproxy.ErrUnavailable},
		{"zip.status=404", "", "zip answered 404 Not Found", modproxy.ErrUnavailable},
		{"zip.status=401", "", unreadable, modproxy.ErrDenied},
		{"zip.status=429\nzip.retry-after=60", "", "429 Too Many Requests", modproxy.ErrUnavailable},
		{"sums.status=503\nsums.times=1", "", "", nil},
		{"zip.status=503\nzip.times=1", "", "", nil},
		{"zip.truncate=50\nzip.times=1", "", "", nil},
		{"zip.redirects=3\nsums.redirects=3\nprovider-download.redirects=3", "", "", nil},
		{"zip.redirect=http://169.254.169.254", "", "destination not allowed", modproxy.ErrDenied},
		{"sums.redirect=https://10.1.2.3\nprovider-download.redirects=1", "destination not allowed", "", modproxy.ErrDenied},
		{"zip.redirects=11", "", "more than 10 redirects", modproxy.ErrUnavailable},
	}
	all := &txtar.Archive{}
	for i, test := range tests {
		all.Files = append(all.Files, txtar.File{Name: fmt.Sprintf("providers/acme/toy/1.%d.0", i), Data: []byte(test.knobs + "\n")})
	}
	u := registrytest.New(t, all)
	for i, test := range tests {
		t.Run(strings.ReplaceAll(test.knobs, "\n", " "), func(t *testing.T) {
			t.Parallel()
			v := toyOf(u).At(fmt.Sprintf("1.%d.0", i))
			// Each on its own, because a release yields the URL of a zip archive.
			zip := v.ForPlatform(linux)
			for i, of := range []modproxy.Ref{v, zip, zip} {
				ctx, said := t.Context(), []string{test.release, test.zip, test.zip}[i]
				if once := strings.Contains(test.knobs, "times="); i == 1 && once || i == 2 && !once {
					ctx = modproxy.AllowPartial(ctx)
				}
				p, data, err := fetchAll(ctx, newClient(t, u, nil), of)
				if said == "" {
					if err != nil || i > 0 && p.Facts.Hashes == "" || int64(len(data)) != p.Size || sha256.Sum256(data) != p.Digest {
						t.Errorf("%v: %d bytes, %v", of, len(data), err)
					}
					continue
				}
				if err == nil || !errors.Is(err, test.want) || !strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "acme/toy "+v.Version+[]string{": ", " for linux_amd64: ", " for linux_amd64: "}[i]) {
					t.Errorf("%v: %v; want %v with %q", of, err, test.want, said)
				}
				if test.want != modproxy.ErrNotFound && errors.Is(err, modproxy.ErrNotFound) {
					t.Errorf("%v: %v says that there is no such thing", of, err)
				}
				later, isLater := errors.AsType[*modproxy.RetryLater](err)
				if strings.Contains(test.knobs, "retry-after") != isLater || isLater && time.Until(later.After) < 50*time.Second {
					t.Errorf("%v: %v: later %v", of, err, later)
				}
			}
		})
	}
}

// Versions of a provider are requested like those of a module.
func TestProviderAnswers(t *testing.T) {
	for _, c := range []struct {
		kind  registrytest.Kind
		knobs registrytest.Knobs
		want  error
		asks  int // requests of that kind, for two questions
	}{
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 404}, modproxy.ErrNotFound, 2},
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 401}, modproxy.ErrDenied, 2},
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 403}, modproxy.ErrDenied, 2},
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 204}, modproxy.ErrUnavailable, 2},
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 500}, modproxy.ErrUnavailable, 4},
		{registrytest.ProviderVersions, registrytest.Knobs{Status: 429, RetryAfter: "120"}, modproxy.ErrUnavailable, 1},
		{registrytest.ProviderVersions, registrytest.Knobs{Truncate: 5, Times: 1}, nil, 3},
		{registrytest.Discovery, registrytest.Knobs{Status: 404}, modproxy.ErrUnavailable, 1},
	} {
		t.Run(fmt.Sprintf("%s %+v", c.kind, c.knobs), func(t *testing.T) {
			u := registrytest.New(t, fixture("-- providers/acme/toy/1.0.0 --\n"))
			client := newClient(t, u, nil)
			u.Set(c.kind, c.knobs)
			for range 2 {
				_, err := client.Versions(t.Context(), toyOf(u))
				if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), "acme/toy") {
					t.Errorf("error %v; want %v", err, c.want)
				}
			}
			if got := u.Count(c.kind); got != c.asks {
				t.Errorf("asked %d times; want %d", got, c.asks)
			}
		})
	}
	u := registrytest.New(t, registrytest.Modules()) // this registry has no providers
	if _, err := newClient(t, u, nil).Versions(t.Context(), toyOf(u)); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("without providers.v1: %v", err)
	}
}

// An unsigned release is accepted if that is allowed, unless there are keys that do not count.
func TestProviderUnsigned(t *testing.T) {
	u := registrytest.New(t, fixture(`
-- providers/acme/toy/1.0.0 --
keys=
-- providers/acme/toy/1.1.0 --
keys=
signature=empty
-- providers/acme/toy/1.2.0 --
keys=broken
-- providers/acme/toy/1.3.0 --
keys=another
-- providers/other/toy/1.0.0 --
keys=
`))
	client := newClient(t, u, nil, func(c *upstream.Config) {
		c.Providers.Unsigned = auth.Scopes{{Host: u.Host, Namespace: "acme"}}
	})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		p, err := client.Package(t.Context(), toyOf(u).At(version))
		if err != nil {
			t.Fatal(err)
		}
		r, err := release.Open(p)
		if err != nil || p.Close() != nil || !r.Unsigned || p.Facts.Keys != "" || p.Facts.Zips == "" {
			t.Errorf("%s: %+v, %v; facts %v", version, r, err, p.Facts)
		}
	}
	for _, v := range []modproxy.Ref{
		toyOf(u).At("1.2.0"), toyOf(u).At("1.3.0"), modproxy.NewProvider(u.Host, "other", "toy").At("1.0.0"),
	} {
		if p, err := client.Package(t.Context(), v); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%v: %v, %v", v, p, err)
		}
	}
}

// A registry's token goes to the registry, and to no other server that it refers to.
func TestProviderToken(t *testing.T) {
	const toy = "-- providers/acme/toy/1.0.0 --\n"
	elsewhere, u := registrytest.New(t, fixture(toy)), registrytest.New(t, fixture(toy))
	u.Set(registrytest.Sums, registrytest.Knobs{Redirect: elsewhere.URL})
	u.Set(registrytest.Zip, registrytest.Knobs{Redirect: elsewhere.URL})
	const secret = "registry-token-8f2c"
	client := newClient(t, u, map[string]upstream.Host{u.Host: {Token: egress.NewSecret(secret)}})
	for _, v := range []modproxy.Ref{toyOf(u).At("1.0.0"), toyOf(u).At("1.0.0").ForPlatform(linux)} {
		if _, _, err := fetchAll(t.Context(), client, v); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range u.Requests() {
		if !strings.Contains(r.Header.Get("Authorization"), secret) {
			t.Errorf("%s %s: without the token", r.Kind, r.Path)
		}
	}
	if n := len(elsewhere.Requests()); n != 2 {
		t.Errorf("the other host was asked %d times", n)
	}
	for _, r := range elsewhere.Requests() {
		if len(r.Header["Authorization"]) > 0 {
			t.Errorf("%s %s: %v", r.Kind, r.Path, http.Header(r.Header))
		}
	}
}
