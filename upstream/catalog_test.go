package upstream_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

const lists = `
-- v1/modules.json --
{"meta": {"limit": 2, "current_offset": 0, "next_offset": 2}, "modules": [
  {"namespace": "acme", "name": "network", "provider": "aws", "version": "2.0.0", "downloads": 7},
  {"namespace": "acme", "name": "vpc", "provider": "aws", "version": "v1.0"}]}
-- v1/modules?limit=2&offset=2.json --
{"meta": {"limit": 2, "current_offset": 2, "next_offset": 4}, "modules": [
  {"namespace": "acme", "name": "iam", "provider": "aws", "version": "1.0.0"},
  {"namespace": "acme", "name": "dns", "provider": "aws", "version": "1.0.0"}]}
-- v1/modules/search?limit=9&offset=0&q=vpc.json --
{"meta": {"limit": 9}, "modules": [{"namespace": "acme", "name": "vpc", "provider": "aws", "version": "v1.0"}]}
-- v1/modules/search.json --
{"modules": []}
-- v1/modules/acme.json --
{"meta": {"limit": 9}, "modules": [{"namespace": "ACME", "name": "vpc", "provider": "aws", "version": "v1.0"}]}
-- v1/modules/acme/network/aws/downloads/summary.json --
{"data": {"attributes": {"week": 1, "month": 2, "year": 3, "total": 4}}}
`

const opened = `
-- registry/docs/modules/acme/network/aws/index.json --
{"versions": [{"id": "v2.0.0", "published": "2023-07-15T09:30:12Z"}, {"id": "v1.0.0", "published": "2022-07-15T09:30:12Z"}]}
-- registry/docs/modules/acme/network/aws/v1.0.0/index.json --
{"id": "v1.0.0", "published": "2022-07-15T09:30:12Z", "variables": {"a": {"type": "string", "default": "x"}}}
`

// serve returns an upstream registry that is described by text.
func serve(t *testing.T, text string) *registrytest.Upstream {
	return registrytest.New(t, txtar.Parse([]byte(text)))
}

func TestCatalog(t *testing.T) {
	u := serve(t, module+v2+docs+lists)
	client := newClient(t, u, nil)
	m := networkOf(u)
	began := time.Now()
	d, err := client.Details(t.Context(), m.At("1.0.0"))
	if err != nil || d.Ref != m.At("1.0.0") || d.Published.Year() != 2019 || d.Hit || d.Stale || d.Time.Before(began) {
		t.Errorf("details: %+v, %v", d, err)
	}
	h, err := client.History(t.Context(), m)
	if err != nil || h.Module != m || len(h.Versions) != 3 || h.Versions[1].Version != "2.0.0" || h.Time.Before(began) {
		t.Errorf("history: %+v, %v", h, err)
	}
	downloads, err := client.Downloads(t.Context(), m)
	if err != nil || downloads.Week != 1 || downloads.Total != 4 || downloads.Time.Before(began) {
		t.Errorf("downloads: %+v, %v", downloads, err)
	}
	for _, c := range []struct {
		q    modproxy.Query
		want string
	}{
		{modproxy.Query{Limit: 2}, "network 2.0.0, vpc 1.0.0, more"},
		{modproxy.Query{Limit: 4}, "network 2.0.0, vpc 1.0.0, iam 1.0.0, dns 1.0.0, more"}, // in two answers
		{modproxy.Query{Limit: 9, Search: "vpc"}, "vpc 1.0.0"},
		{modproxy.Query{Limit: 9, Namespace: "acme"}, "vpc 1.0.0"},
		{modproxy.Query{Limit: 9, Namespace: "nobody"}, "not found"},
		{modproxy.Query{Limit: 9, Namespace: "../x"}, "invalid"},
		{modproxy.Query{Limit: 9, Namespace: "acme", Name: "a?b"}, "invalid"},
		{modproxy.Query{Limit: 9, System: "A#"}, "invalid"},
	} {
		c.q.Host = u.Host
		page, err := client.List(t.Context(), c.q)
		var got []string
		switch {
		case errors.Is(err, modproxy.ErrNotFound):
			got = []string{"not found"}
		case errors.Is(err, modproxy.ErrInvalid):
			got = []string{"invalid"}
		case err != nil:
			got = []string{err.Error()}
		default:
			for _, s := range page.Modules {
				got = append(got, s.Name+" "+s.Version)
			}
			if page.More {
				got = append(got, "more")
			}
			if page.Time.Before(began) {
				t.Errorf("%+v was given at %v", c.q, page.Time)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%+v: %s; want %s", c.q, text, c.want)
		}
	}
}

// Details requests a version in its registry's spelling. It requests the list of versions only if the spelling is
// unknown.
func TestDetailsBySpelling(t *testing.T) {
	u := serve(t, module+docs)
	client := newClient(t, u, nil)
	v := networkOf(u).At("2.0.0")
	for i, want := range []int{3, 1} { // first the canonical spelling, the list and the registry's spelling; then only the last
		u.Reset()
		d, err := client.Details(t.Context(), v)
		if err != nil || d.Ref != v || d.Published.Year() != 2021 {
			t.Errorf("%d: %+v, %v", i, d, err)
		}
		if asked := u.Count(registrytest.All) - u.Count(registrytest.Discovery); asked != want {
			t.Errorf("%d: asked %d times; want %d: %v", i, asked, want, u.Requests())
		}
	}
	u.Reset()
	if _, err := client.Details(t.Context(), networkOf(u).At("3.0.0")); !errors.Is(err, modproxy.ErrNotFound) || u.Count(registrytest.All) != 1 {
		t.Errorf("of none: %v after %v", err, u.Requests())
	}
}

// A document that is too large counts like an unreadable one.
func TestCatalogTooLarge(t *testing.T) {
	for name, document := range map[string]string{"large": `{"a":"` + strings.Repeat("x", 8<<20) + `"}`, "broken": `{"a":`} {
		u := serve(t, module+"-- v1/modules/acme/network/aws/1.0.0 --\n"+document)
		_, err := newClient(t, u, nil).Details(t.Context(), networkOf(u).At("1.0.0"))
		if !errors.Is(err, modproxy.ErrUnavailable) || !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// If the services beside the protocol fail, every such question reports it, and questions of the protocol are
// unaffected.
func TestCatalogInTrouble(t *testing.T) {
	for _, c := range []struct {
		knobs registrytest.Knobs
		want  error
	}{
		{registrytest.Knobs{Status: 503}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 429, RetryAfter: "120"}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Truncate: 5}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 500}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 204}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 401}, modproxy.ErrDenied},
		{registrytest.Knobs{Status: 404}, modproxy.ErrNotFound},
	} {
		t.Run(fmt.Sprintf("%+v", c.knobs), func(t *testing.T) {
			t.Parallel() // it mostly waits
			u := serve(t, module+v2+docs+lists)
			client := newClient(t, u, nil)
			u.Set(registrytest.Dates, c.knobs)
			u.Set(registrytest.Catalog, c.knobs)
			m := networkOf(u)
			_, details := client.Details(t.Context(), m.At("1.0.0"))
			_, history := client.History(t.Context(), m)
			_, downloads := client.Downloads(t.Context(), m)
			_, list := client.List(t.Context(), modproxy.Query{Host: u.Host, Search: "secret", Limit: 9})
			for _, err := range []error{details, history, downloads, list} {
				if !errors.Is(err, c.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v; want %v", err, c.want)
				}
			}
			if _, err := client.Versions(t.Context(), m); err != nil {
				t.Errorf("versions: %v", err)
			}
		})
	}
}

// If the documentation is elsewhere, that API is asked and receives no token, even at an origin of the registry.
func TestDocs(t *testing.T) {
	const secret = "registry-token-51c7"
	u := serve(t, module+docs+opened)
	elsewhere := serve(t, opened)
	for name, at := range map[string]*registrytest.Upstream{"elsewhere": elsewhere, "at the registry": u} {
		t.Run(name, func(t *testing.T) {
			u.Reset()
			elsewhere.Reset()
			client := newClient(t, u, map[string]upstream.Host{u.Host: {Docs: at.URL, Token: egress.NewSecret(secret)}})
			m := networkOf(u)
			d, err := client.Details(t.Context(), m.At("1.0.0"))
			if err != nil || d.Ref != m.At("1.0.0") || d.Published.Year() != 2022 || len(d.Root.Inputs) != 1 || d.Root.Inputs[0].Default != `"x"` {
				t.Errorf("details: %+v, %v", d, err)
			}
			if _, err := client.Details(t.Context(), m.At("3.0.0")); !errors.Is(err, modproxy.ErrNotFound) {
				t.Errorf("of none: %v", err)
			}
			h, err := client.History(t.Context(), m)
			if err != nil || len(h.Versions) != 2 || h.Module != m {
				t.Errorf("history: %+v, %v", h, err)
			}
			dates, rest, err := client.Published(t.Context(), m, []string{"1.0.0", "2.0.0"})
			if len(rest) > 0 || said(dates) != "1.0.0 2022-07-15T09:30:12Z, 2.0.0 2023-07-15T09:30:12Z" || err != nil {
				t.Errorf("dates: %s, %v", said(dates), err)
			}
			asked := append(u.Requests(), elsewhere.Requests()...)
			for _, r := range asked {
				if !strings.HasPrefix(r.Path, "/registry/docs/") || r.Header.Get("Authorization") != "" {
					t.Errorf("%s with %q", r.Path, r.Header["Authorization"])
				}
			}
			if len(asked) != 4 || at == elsewhere && elsewhere.Count(registrytest.All) != 4 {
				t.Errorf("asked %v", asked)
			}
			if _, err := client.Versions(t.Context(), m); err != nil {
				t.Errorf("versions: %v", err)
			}
		})
	}
	if _, err := upstream.New(upstream.Config{Hosts: map[string]upstream.Host{"a.example": {Docs: "api.opentofu.org"}}}); err == nil {
		t.Error("a client without a URL for docs was made")
	}
}
