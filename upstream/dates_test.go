package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

// said formats dates.
func said(dates map[string]time.Time) string {
	var list []string
	for _, version := range slices.Sorted(maps.Keys(dates)) {
		list = append(list, version+" "+dates[version].Format(time.RFC3339))
	}
	return strings.Join(list, ", ")
}

const module = `
-- modules/acme/network/aws/1.0.0/main.tf --
-- modules/acme/network/aws/v2.0/main.tf --
`

const v2 = `
-- v2/modules/acme/network/aws --
{"data": {"type": "modules", "id": "23", "attributes": {"name": "network"}}, "included": [
  {"type": "module-versions", "id": "1", "attributes": {"version": "1.0.0", "published-at": "2020-02-06T06:26:08Z"}},
  {"type": "module-versions", "id": "2", "attributes": {"version": "v2.0", "published-at": "2021-08-05T00:26:33.501756+02:00"}},
  {"type": "module-versions", "id": "3", "attributes": {"version": "3.0.0"}}]}
`

const docs = `
-- v1/modules/acme/network/aws/1.0.0 --
{"id": "acme/network/aws/1.0.0", "version": "1.0.0", "published_at": "2019-01-02T03:04:05Z", "root": {}}
-- v1/modules/acme/network/aws/v2.0 --
{"id": "acme/network/aws/v2.0", "version": "v2.0", "published_at": "2021-01-02T03:04:05Z", "root": {}}
`

// published returns the dates of versions with the calls of a caller that needs all dates.
func published(ctx context.Context, c *upstream.Client, m modproxy.Address, versions []string) (map[string]time.Time, error) {
	dates, rest, err := c.Published(ctx, m, versions)
	for _, version := range rest {
		at, errOne := c.PublishedOf(ctx, m.At(version))
		if err = errors.Join(err, errOne); !at.IsZero() {
			dates[version] = at
		}
	}
	return dates, err
}

// Dates from /v2/ take precedence over those in the documents about versions. A registry without either gives no dates.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		name, fixture, base string
		versions            []string // requested versions; nil means both of the fixture
		want                string
		asked               int
	}{
		{"v2", module + v2 + docs, "", nil, "1.0.0 2020-02-06T06:26:08Z, 2.0.0 2021-08-04T22:26:33Z", 1},
		{"documents", module + docs, "", nil, "1.0.0 2019-01-02T03:04:05Z, 2.0.0 2021-01-02T03:04:05Z", 3},
		{"none of the newest", module + "-- v1/modules/acme/network/aws/1.0.0 --\n{\"version\":\"1.0.0\",\"published_at\":\"2019-01-02T03:04:05Z\"}\n", "", nil, "1.0.0 2019-01-02T03:04:05Z", 4},
		{"neither", module, "", nil, "", 3},
		{"a page for everything", module + "-- v2/modules/acme/network/aws --\n<html>\n-- v1/modules/acme/network/aws/v2.0 --\n<html>\n", "", nil, "", 3},
		{"the latest for everything", module + "-- v1/modules/acme/network/aws/v2.0 --\n{\"version\":\"1.0.0\",\"published_at\":\"2019-01-02T03:04:05Z\"}\n", "", nil, "", 3},
		{"elsewhere", module + v2, "/api/modules/", nil, "", 4}, // the registry's spelling of versions is not known either
		{"nothing to ask for", module, "", []string{}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := registrytest.New(t, txtar.Parse([]byte(c.fixture)))
			hosts := map[string]upstream.Host{}
			if c.base != "" {
				hosts[u.Host] = upstream.Host{Modules: u.URL + c.base}
			}
			client := newClient(t, u, hosts)
			client.Versions(t.Context(), networkOf(u)) // records spellings
			u.Reset()
			if c.versions == nil {
				c.versions = []string{"2.0.0", "1.0.0"}
			}
			got, err := published(t.Context(), client, networkOf(u), c.versions)
			if said(got) != c.want || err != nil {
				t.Errorf("got %s, %v; want %s", said(got), err, c.want)
			}
			if asked := u.Count(registrytest.All) - u.Count(registrytest.Discovery); asked != c.asked {
				t.Errorf("asked %d times; want %d: %v", asked, c.asked, u.Requests())
			}
		})
	}
}

// If a registry gives the date of one version, it gives those of all, and it is asked about each version once.
func TestPublishedOneByOne(t *testing.T) {
	fixture, versions := module, []string{}
	for i := range 40 {
		version := fmt.Sprintf("1.%d.0", i)
		fixture += fmt.Sprintf("-- v1/modules/acme/network/aws/%s --\n{\"version\": %q, \"published_at\": \"2019-01-02T03:04:05Z\"}\n", version, version)
		versions = append(versions, version)
	}
	u := registrytest.New(t, txtar.Parse([]byte(fixture)))
	client := newClient(t, u, nil)
	first, rest, err := client.Published(t.Context(), networkOf(u), versions)
	if len(first) != 1 || len(rest) != 39 || err != nil || u.Count(registrytest.Dates) != 2 {
		t.Errorf("at once: %d dates, %d left, %v, %d questions", len(first), len(rest), err, u.Count(registrytest.Dates))
	}
	u.Reset()
	got, err := published(t.Context(), client, networkOf(u), versions)
	if len(got) != 40 || err != nil || u.Count(registrytest.Dates) != 41 {
		t.Errorf("%d dates, %v, %d questions", len(got), err, u.Count(registrytest.Dates))
	}
}

// An outage is an error and ends the questions for dates. It does not prevent questions for versions.
func TestPublishedInTrouble(t *testing.T) {
	for _, c := range []struct {
		knobs registrytest.Knobs
		want  error
	}{
		{registrytest.Knobs{Status: 503}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 429, RetryAfter: "120"}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Truncate: 5}, modproxy.ErrUnavailable},
		{registrytest.Knobs{Status: 401}, nil},
		{registrytest.Knobs{Status: 404}, nil},
		{registrytest.Knobs{Status: 500}, nil},
		{registrytest.Knobs{Status: 204}, nil},
	} {
		t.Run(fmt.Sprintf("%+v", c.knobs), func(t *testing.T) {
			t.Parallel() // it mostly waits
			u := registrytest.New(t, txtar.Parse([]byte(module+v2+docs)))
			client := newClient(t, u, nil)
			u.Set(registrytest.Dates, c.knobs)
			got, err := published(t.Context(), client, networkOf(u), []string{"1.0.0"})
			if !errors.Is(err, c.want) || len(got) != 0 {
				t.Errorf("%s, %v; want %v", said(got), err, c.want)
			}
			if _, err := client.Versions(t.Context(), networkOf(u)); err != nil {
				t.Errorf("versions: %v", err)
			}
		})
	}
}

// A cancelled request is an error, not a result without dates.
func TestPublishedGivenUp(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(module+v2+docs)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := published(ctx, newClient(t, u, nil), networkOf(u), []string{"1.0.0"}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("%s, %v", said(got), err)
	}
}

// Questions for dates carry the registry's token. It is sent nowhere else.
func TestPublishedShowsToken(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(module+v2)))
	u.Set(registrytest.Dates, registrytest.Knobs{Token: "open sesame"})
	client := newClient(t, u, map[string]upstream.Host{u.Host: {Token: egress.NewSecret("open sesame")}})
	if got, err := published(t.Context(), client, networkOf(u), nil); len(got) != 2 || err != nil {
		t.Errorf("%s, %v", said(got), err)
	}
}

// A registry that answers slowly about dates still answers questions of the protocol.
func TestSlowDatesHoldNothingUp(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(module+v2)))
	client := newClient(t, u, nil)
	u.Set(registrytest.Dates, registrytest.Knobs{Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for range 40 {
		asking.Go(func() { _, _ = published(ctx, client, networkOf(u), nil) })
	}
	for end := time.Now().Add(time.Minute); u.Count(registrytest.Dates) < 4 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if _, err := client.Versions(t.Context(), networkOf(u)); err != nil {
		t.Errorf("versions: %v", err)
	}
	if n := u.Count(registrytest.Dates); n > 12 { // each question is sent three times at most
		t.Errorf("beside %d questions for dates", n)
	}
}

// A version has no date only if the registry answers so. If the registry denies or fails to answer, the date is
// unknown.
func TestPublishedOfFailed(t *testing.T) {
	for status, want := range map[int]error{500: modproxy.ErrUnavailable, 501: modproxy.ErrUnavailable, 401: modproxy.ErrUnavailable, 403: modproxy.ErrUnavailable, 404: nil, 410: nil, 204: nil} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			u := registrytest.New(t, txtar.Parse([]byte(module+docs)))
			client := newClient(t, u, nil)
			u.Set(registrytest.Dates, registrytest.Knobs{Status: status})
			v := networkOf(u).At("1.0.0")
			if at, err := client.PublishedOf(t.Context(), v); !errors.Is(err, want) || !at.IsZero() {
				t.Errorf("%v, %v; want %v", at, err, want)
			}
			u.Set(registrytest.Dates, registrytest.Knobs{})
			if at, err := client.PublishedOf(t.Context(), v); err != nil || at.IsZero() {
				t.Errorf("afterwards: %v, %v", at, err)
			}
		})
	}
}
