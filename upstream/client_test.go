package upstream_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/web"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

// newClient returns a client that may connect to this machine. It does not hedge, because tests count requests.
func newClient(t testing.TB, u *registrytest.Upstream, hosts map[string]upstream.Host, set ...func(*upstream.Config)) *upstream.Client {
	t.Helper()
	out, err := egress.New(egress.Config{
		Allow: []string{"127.0.0.0/8"}, CAFile: u.CAFile, NoHedging: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	scratch := t.TempDir()
	archives := &web.Getter{Egress: out, Scratch: scratch, MaxReceived: 1 << 20}
	cfg := upstream.Config{
		Egress: out, Hosts: hosts, Providers: upstream.Providers{Scratch: scratch},
		Fetch: &fetch.Table{
			Scratch: scratch, Limits: pack.Limits{Bytes: 1 << 20},
			Getters: map[string]fetch.Getter{
				"git":  &git.Getter{Dir: scratch, CAFile: u.CAFile, Network: out},
				"http": archives, "https": archives,
			},
		},
	}
	for _, change := range set {
		change(&cfg)
	}
	c, err := upstream.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// hedging enables hedging in a client's configuration.
func hedging(t testing.TB, u *registrytest.Upstream) func(*upstream.Config) {
	t.Helper()
	out, err := egress.New(egress.Config{Allow: []string{"127.0.0.0/8"}, CAFile: u.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { out.Close() })
	return func(cfg *upstream.Config) { cfg.Egress = out }
}

func TestRegistry(t *testing.T) {
	u := registrytest.New(t, registrytest.Modules())
	registrytest.TestRegistry(t, u.Host, func(t testing.TB) modproxy.Registry { return newClient(t, u, nil) })
}

var network = modproxy.Address{Namespace: "acme", Name: "network", System: "aws"}

func networkOf(u *registrytest.Upstream) modproxy.Address {
	m := network
	m.Host = u.Host
	return m
}

// TestAnswers checks the errors for answers of a registry.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  registrytest.Kind
		knobs registrytest.Knobs
		want  error
		asks  int // requests of that kind, for two questions
	}{
		{"not found", registrytest.Versions, registrytest.Knobs{Status: 404}, modproxy.ErrNotFound, 2},
		{"gone", registrytest.Versions, registrytest.Knobs{Status: 410}, modproxy.ErrNotFound, 2},
		{"unauthorized", registrytest.Versions, registrytest.Knobs{Status: 401}, modproxy.ErrDenied, 2},
		{"forbidden", registrytest.Versions, registrytest.Knobs{Status: 403}, modproxy.ErrDenied, 2},
		{"no content", registrytest.Versions, registrytest.Knobs{Status: 204}, modproxy.ErrUnavailable, 2},
		{"not implemented", registrytest.Versions, registrytest.Knobs{Status: 501}, modproxy.ErrUnavailable, 2},
		{"broken is tried twice", registrytest.Versions, registrytest.Knobs{Status: 500}, modproxy.ErrUnavailable, 4},
		{"busy is left alone", registrytest.Versions, registrytest.Knobs{Status: 429, RetryAfter: "120"}, modproxy.ErrUnavailable, 1},
		{"unavailable is left alone", registrytest.Versions, registrytest.Knobs{Status: 503, RetryAfter: "120"}, modproxy.ErrUnavailable, 1},
		{"truncated once", registrytest.Versions, registrytest.Knobs{Truncate: 5, Times: 1}, nil, 3},
		{"discovery of another type", registrytest.Discovery, registrytest.Knobs{Type: "text/html"}, modproxy.ErrUnavailable, 1},
		{"discovery redirects three times", registrytest.Discovery, registrytest.Knobs{Redirects: 3}, nil, 4},
		{"discovery redirects four times", registrytest.Discovery, registrytest.Knobs{Redirects: 4}, modproxy.ErrUnavailable, 4},
		// The host answers that it has no services, not that the module does not exist.
		{"no discovery", registrytest.Discovery, registrytest.Knobs{Status: 404}, modproxy.ErrUnavailable, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := registrytest.New(t, registrytest.Modules())
			client := newClient(t, u, nil)
			u.Set(c.kind, c.knobs)
			for range 2 {
				_, err := client.Versions(t.Context(), networkOf(u))
				if !errors.Is(err, c.want) || c.want != modproxy.ErrNotFound && errors.Is(err, modproxy.ErrNotFound) {
					t.Errorf("error %v; want %v", err, c.want)
				}
				if later := (*modproxy.RetryLater)(nil); c.knobs.RetryAfter != "" && (!errors.As(err, &later) || time.Until(later.After) < time.Minute) {
					t.Errorf("error %v does not say when to come back", err)
				}
			}
			if got := u.Count(c.kind); got != c.asks {
				t.Errorf("asked %d times; want %d", got, c.asks)
			}
		})
	}
}

// A registry's token goes to the registry, and not to the locations of packages.
func TestTokenStaysAtTheRegistry(t *testing.T) {
	elsewhere := registrytest.New(t, txtar.Parse([]byte(`
-- archives/x.zip/main.tf --
`)))
	u := registrytest.New(t, txtar.Parse([]byte(strings.ReplaceAll(`
-- modules/acme/network/aws/1.0.0 --
ELSEWHERE/archives/x.zip
-- modules/acme/network/aws/2.0.0 --
{url}/archives/x.zip
-- archives/x.zip/main.tf --
`, "ELSEWHERE", elsewhere.URL))))
	const secret = "registry-token-8f2c"
	client := newClient(t, u, map[string]upstream.Host{u.Host: {Token: egress.NewSecret(secret)}})
	for _, version := range []string{"1.0.0", "2.0.0"} {
		p, err := client.Package(t.Context(), networkOf(u).At(version))
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	for _, r := range append(u.Requests(), elsewhere.Requests()...) {
		shown := strings.Contains(strings.Join(r.Header["Authorization"], " "), secret)
		if want := r.Kind != registrytest.Archive; shown != want {
			t.Errorf("%s %s: token shown: %v; want %v", r.Kind, r.Path, shown, want)
		}
	}
	if elsewhere.Count(registrytest.Archive) != 1 {
		t.Errorf("the other host was asked %d times", elsewhere.Count(registrytest.Archive))
	}
}

// With an empty cache, a package costs one request for its location and one download, even if the caller requests the
// location first.
func TestPackageFollowsLocation(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(`
-- modules/acme/network/aws/1.0.0 --
{url}/archives/x.tar.gz
-- archives/x.tar.gz/main.tf --
`)))
	client := newClient(t, u, nil)
	if _, err := client.Location(t.Context(), networkOf(u).At("1.0.0")); err != nil {
		t.Fatal(err)
	}
	p, err := client.Package(t.Context(), networkOf(u).At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	for kind, want := range map[registrytest.Kind]int{registrytest.Discovery: 1, registrytest.Download: 1, registrytest.Archive: 1, registrytest.All: 3} {
		if got := u.Count(kind); got != want {
			t.Errorf("%d %s requests; want %d", got, kind, want)
		}
	}
}

// A failed try counts against the size limit of the next try. If the rest is too small, the error says nothing about
// the size of the archive.
func TestTroubleIsNotSize(t *testing.T) {
	content := make([]byte, 100_000)
	if _, err := rand.Read(content); err != nil {
		t.Fatal(err)
	}
	u := registrytest.New(t, txtar.Parse([]byte(`
-- modules/acme/network/aws/1.0.0 --
{url}/archives/x.zip
-- archives/x.zip/main.tf --
# `+hex.EncodeToString(content))))
	client := newClient(t, u, nil, func(c *upstream.Config) {
		c.Fetch.Getters["https"].(*web.Getter).MaxReceived = 150_000
	})
	u.Set(registrytest.Archive, registrytest.Knobs{Truncate: 90_000, Times: 1})
	if _, err := client.Package(t.Context(), networkOf(u).At("1.0.0")); !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("after an answer that was cut off: %v", err)
	}
	if n := u.Count(registrytest.Archive); n != 2 {
		t.Errorf("asked %d times", n)
	}
	p, err := client.Package(t.Context(), networkOf(u).At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}

// Refused locations are refused when the location is requested, with an error that names them.
func TestRefusedLocations(t *testing.T) {
	for location, want := range map[string]error{
		"hg::https://hg.example.com/x":               modproxy.ErrInvalid,
		"s3::https://s3.amazonaws.com/b/k.zip":       modproxy.ErrInvalid,
		"gcs::https://www.googleapis.com/storage/x":  modproxy.ErrInvalid,
		"oci://registry.example.com/x?tag=1":         modproxy.ErrInvalid,
		"file:///etc":                                modproxy.ErrDenied,
		"git::file:///etc":                           modproxy.ErrInvalid,
		"git::ext::sh -c touch% x":                   modproxy.ErrInvalid,
		"git::https://git.example.com/x?ref=-b":      modproxy.ErrInvalid,
		"git::https://git.example.com/x?sshkey=eA==": modproxy.ErrInvalid,
		"git::ssh://git@git.example.com/x":           modproxy.ErrDenied, // no identity is configured
		"https://169.254.169.254/x.zip":              modproxy.ErrDenied,
		"http://93.184.215.14/x.zip":                 modproxy.ErrDenied,
		"https://93.184.215.14:8443/x.zip":           modproxy.ErrDenied,
		"other/module/address":                       modproxy.ErrInvalid,
	} {
		u := registrytest.New(t, &txtar.Archive{Files: []txtar.File{
			{Name: "modules/acme/network/aws/1.0.0", Data: []byte(location + "\n")},
		}})
		client := newClient(t, u, nil)
		_, err := client.Location(t.Context(), networkOf(u).At("1.0.0"))
		if !errors.Is(err, want) {
			t.Errorf("%s: %v; want %v", location, err, want)
		}
		if getter, _, ok := strings.Cut(location, "::https"); err != nil && ok && getter != "git" && !strings.Contains(err.Error(), getter) {
			t.Errorf("%s: error %v does not name the getter", location, err)
		}
	}
}

// A registry may spell a version differently from the clients.
func TestSpellings(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(`
-- modules/acme/network/aws/versions --
{"modules":[{"versions":[{"version":"v1.2"}]}]}
-- modules/acme/network/aws/v1.2 --
{url}/archives/x.zip
-- archives/x.zip/main.tf --
`)))
	client := newClient(t, u, nil)
	l, err := client.Location(t.Context(), networkOf(u).At("1.2.0"))
	if err != nil || l.URL != u.URL+"/archives/x.zip" {
		t.Errorf("location %v, %v", l, err)
	}
	for range 3 {
		if _, err := client.Location(t.Context(), networkOf(u).At("9.9.9")); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("a version that is not listed: %v", err)
		}
	}
	if _, err := client.Location(t.Context(), networkOf(u).At("1.2.0")); err != nil {
		t.Errorf("when the spelling is known: %v", err)
	}
	if n := u.Count(registrytest.Versions); n != 1 {
		t.Errorf("asked for the versions %d times", n)
	}
}

// If a client disconnects, the discovery that it started continues for the other clients.
func TestDiscoveryOutlivesWhoBegan(t *testing.T) {
	u := registrytest.New(t, registrytest.Modules())
	client := newClient(t, u, nil)
	u.Set(registrytest.Discovery, registrytest.Knobs{Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := client.Versions(ctx, networkOf(u)); first <- err }()
	for u.Count(registrytest.Discovery) == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() { _, err := client.Versions(t.Context(), networkOf(u)); second <- err }()
	cancel()
	if err := <-first; !errors.Is(err, modproxy.ErrUnavailable) && !errors.Is(err, context.Canceled) {
		t.Errorf("the first: %v", err)
	}
	u.Set(registrytest.Discovery, registrytest.Knobs{})
	if err := <-second; err != nil {
		t.Errorf("the second: %v", err)
	}
}

// A discovery that fails late does not replace the result of one that succeeded in the meantime.
func TestLateDiscoveryTakesNothing(t *testing.T) {
	u := registrytest.New(t, registrytest.Modules())
	client := newClient(t, u, nil, hedging(t, u))
	u.Set(registrytest.Discovery, registrytest.Knobs{Hold: true, Status: 404, Times: 1})
	if _, err := client.Versions(t.Context(), networkOf(u)); err != nil {
		t.Fatalf("with the first discovery on its way: %v", err)
	}
	u.Set(registrytest.Discovery, registrytest.Knobs{Status: 404}) // the first discovery continues, and fails
	for range 50 {
		if _, err := client.Versions(t.Context(), networkOf(u)); err != nil {
			t.Fatalf("after the first discovery failed: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A failed discovery is soon retried.
func TestFailedDiscoveryIsForgotten(t *testing.T) {
	u := registrytest.New(t, registrytest.Modules())
	client := newClient(t, u, nil)
	u.Set(registrytest.Discovery, registrytest.Knobs{Status: 404})
	_, err := client.Versions(t.Context(), networkOf(u))
	if !errors.Is(err, modproxy.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	u.Set(registrytest.Discovery, registrytest.Knobs{})
	for err != nil {
		time.Sleep(50 * time.Millisecond)
		_, err = client.Versions(t.Context(), networkOf(u))
	}
}
