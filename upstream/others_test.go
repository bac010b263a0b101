package upstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

var othersFixture = txtar.Parse([]byte(`
-- .well-known/terraform.json --
{
  "modules.v1": "/api/registry/v1/modules/", "providers.v1": "/v1/providers/",
  "motd.v1": "/files/motd", "notes.v1": "{url}/files/notes/", "notes.v1.1": "../files/notes/",
  "versions.v1": "https://checkpoint.example/v1/versions/", "far.v1": "//far.example/x", "tfe.v3": "https://tfe.example/api/v2/",
  "login.v1": {"client": "cli", "authz": "/authz", "token": "/token"}, "login.v2": "/login", "tfe.v2": "/api/v2/", "tfe.v2.1": "/api/v2/",
  "state.v2": "/api/v2/", "cloudplugin.v1": "/plugin/", "stacksplugin.v1": "/stacks/", "logout.v1": "/logout",
  "root.v1": "/", "empty.v1": "", "api.v1": "/API/registry", "below.v1": "/api/registry/v1/modules/x", "v1.v1": "/v1/", "dates.v1": "/v2",
  "port.v1": "https://127.0.0.1:1/x", "plain.v1": "http://far.example/x", "user.v1": "https://u:p@far.example/", "query.v1": "/files/motd?x",
  "file.v1": "file:///etc/passwd", "number.v1": 1, "nothing.v1": null, "bad.v1": "%zz", "Upper.v1": "/files/", "noversion": "/files/"
}
-- files/motd --
{"msg":"welcome"}
-- files/notes/one --
one
`))

// OtherServices returns the services beside modules and providers, without those that cannot work through modproxy and those
// that lead to modules.
func TestOthers(t *testing.T) {
	u := registrytest.New(t, othersFixture)
	c := newClient(t, u, map[string]upstream.Host{u.Host: {Token: egress.NewSecret("secret")}})
	want := map[string]string{
		"motd.v1": "/files/motd", "notes.v1": "/files/notes/", "notes.v1.1": "/files/notes/",
		"versions.v1": "https://checkpoint.example/v1/versions/", "far.v1": "https://far.example/x", "tfe.v3": "https://tfe.example/api/v2/",
	}
	if got := c.OtherServices(t.Context(), u.Host); !maps.Equal(got, want) {
		t.Errorf("%v; want %v", got, want)
	}
	mediaType, content, err := c.Document(t.Context(), u.Host, "/files/notes/one?a=b")
	if err != nil || mediaType != "text/plain" || strings.TrimSpace(string(content)) != "one" {
		t.Errorf("%s %q, %v", mediaType, content, err)
	}
	for _, r := range u.Requests() {
		if r.Kind == registrytest.Archive && (r.Header.Get("Authorization") != "" || r.Path != "/files/notes/one?a=b") {
			t.Errorf("asked for %s with %v", r.Path, r.Header)
		}
	}
	if n := u.Count(registrytest.Discovery); n != 1 {
		t.Errorf("asked %d times for what the host offers", n)
	}
	for _, c := range []struct {
		name  string
		knobs registrytest.Knobs
		want  error
	}{
		{"a page", registrytest.Knobs{Type: "text/html"}, modproxy.ErrInvalid},
		{"absent", registrytest.Knobs{Status: 404}, modproxy.ErrNotFound},
		{"not for everybody", registrytest.Knobs{Status: 401}, modproxy.ErrDenied},
		{"in trouble", registrytest.Knobs{Status: 500}, modproxy.ErrUnavailable},
	} {
		u.Set(registrytest.Archive, c.knobs)
		client := newClient(t, u, nil)
		if _, content, err := client.Document(t.Context(), u.Host, "/files/motd"); !errors.Is(err, c.want) || content != nil {
			t.Errorf("%s: %q, %v; want %v", c.name, content, err, c.want)
		}
	}
}

// OtherServices waits once for a host that does not answer, for a second.
func TestOthersDoNotWait(t *testing.T) {
	u := registrytest.New(t, othersFixture)
	c := newClient(t, u, nil)
	u.Set(registrytest.Discovery, registrytest.Knobs{Hold: true})
	if got := c.OtherServices(t.Context(), u.Host); got != nil {
		t.Error(got)
	}
	u.Set(registrytest.Discovery, registrytest.Knobs{})
	told(t, c, u.Host)
}

// told waits until the services of a host are known, and returns them. A busy machine may take longer than OtherServices
// waits.
func told(t *testing.T, c *upstream.Client, host string) map[string]string {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if got := c.OtherServices(t.Context(), host); len(got) > 0 {
			return got
		}
		if time.Now().After(end) {
			t.Fatal("nothing is told of a host that answers")
		}
	}
}

// Document does not wait for a slow host, or one that stops midway, longer than a client waits.
func TestDocumentInTime(t *testing.T) {
	for name, k := range map[string]registrytest.Knobs{"no answer": {Hold: true}, "half a document": {Stall: 5}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := registrytest.New(t, othersFixture)
			u.Set(registrytest.Archive, k)
			_, content, err := newClient(t, u, nil).Document(t.Context(), u.Host, "/files/motd")
			later, ok := errors.AsType[*modproxy.RetryLater](err)
			if !ok || content != nil || time.Until(later.After) > 10*time.Second {
				t.Fatalf("%q, %v", content, err)
			}
			if !strings.Contains(err.Error(), u.Host+" did not give the document within 5s") {
				t.Error(err)
			}
		})
	}
}

// If a host offers very many services, the result is bounded and always the same, and a later call costs nothing.
func TestOthersAreBounded(t *testing.T) {
	long := strings.Repeat("x", 255)
	services := map[string]string{
		"modules.v1": "/v1/modules/", "a-long.v1": "/" + long, "a-longer.v1": "/" + long + "x", "a-escaped.v1": "/" + strings.Repeat("\u202e", 80),
		"a" + long + ".v1": "/x", "a.v" + long[:9]: "/x", "a.v1234567890": "/x", "a.v1.2.3.4.5": "/x", "a-far.v1": "https://far.example/" + long,
	}
	for i := range 20000 {
		services[fmt.Sprintf("z%05d.v1", i)] = "/files/"
	}
	document, err := json.Marshal(services)
	if err != nil {
		t.Fatal(err)
	}
	u := registrytest.New(t, &txtar.Archive{Files: []txtar.File{{Name: ".well-known/terraform.json", Data: document}}})
	c := newClient(t, u, nil)
	want := map[string]string{"a-long.v1": "/" + long}
	for i := range 63 {
		want[fmt.Sprintf("z%05d.v1", i)] = "/files/"
	}
	if got := told(t, c, u.Host); !maps.Equal(got, want) {
		t.Errorf("%d: %v", len(got), got)
	}
	if n := testing.AllocsPerRun(10, func() { c.OtherServices(t.Context(), u.Host) }); n > 10 {
		t.Errorf("%v allocations", n)
	}
}
