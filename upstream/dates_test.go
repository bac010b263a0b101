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

// said prints dates.
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

// published returns the dates of versions as whoever needs all of them asks for them.
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

// The dates of /v2/ count, then those of the documents about versions; a registry that has neither gives none.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		name, fixture, base string
		versions            []string // asked for; nil: both of the fixture
		want                string
		asked               int
	}{
		{"v2", module + v2 + docs, "", nil, "1.0.0 2020-02-06T06:26:08Z, 2.0.0 2021-08-04T22:26:33Z", 1},
		{"documents", module + docs, "", nil, "1.0.0 2019-01-02T03:04:05Z, 2.0.0 2021-01-02T03:04:05Z", 3},
		{"none of the newest", module + "-- v1/modules/acme/network/aws/1.0.0 --\n{\"version\":\"1.0.0\",\"published_at\":\"2019-01-02T03:04:05Z\"}\n", "", nil, "1.0.0 2019-01-02T03:04:05Z", 4},
		{"neither", module, "", nil, "", 3},
		{"a page for everything", module + "-- v2/modules/acme/network/aws --\n<html>\n-- v1/modules/acme/network/aws/v2.0 --\n<html>\n", "", nil, "", 3},
		{"the latest for everything", module + "-- v1/modules/acme/network/aws/v2.0 --\n{\"version\":\"1.0.0\",\"published_at\":\"2019-01-02T03:04:05Z\"}\n", "", nil, "", 3},
		{"elsewhere", module + v2, "/api/modules/", nil, "", 4}, // also how it spells versions, which is not known
		{"nothing to ask for", module, "", []string{}, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := registrytest.New(t, txtar.Parse([]byte(c.fixture)))
			hosts := map[string]upstream.Host{}
			if c.base != "" {
				hosts[u.Host] = upstream.Host{Modules: u.URL + c.base}
			}
			client := newClient(t, u, hosts)
			client.Versions(t.Context(), networkOf(u)) // which notes spellings
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

// A registry that says it of one version says it of all, and is asked about each once.
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

// Trouble is an error, and no reason to go on asking. It does not keep the registry from being asked for versions.
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
			t.Parallel() // most of the time is waiting
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

// Who gives up does not learn that there are no dates.
func TestPublishedGivenUp(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(module+v2+docs)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := published(ctx, newClient(t, u, nil), networkOf(u), []string{"1.0.0"}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("%s, %v", said(got), err)
	}
}

// The registry's token goes with the questions, and nowhere else.
func TestPublishedShowsToken(t *testing.T) {
	u := registrytest.New(t, txtar.Parse([]byte(module+v2)))
	u.Set(registrytest.Dates, registrytest.Knobs{Token: "open sesame"})
	client := newClient(t, u, map[string]upstream.Host{u.Host: {Token: egress.NewSecret("open sesame")}})
	if got, err := published(t.Context(), client, networkOf(u), nil); len(got) != 2 || err != nil {
		t.Errorf("%s, %v", said(got), err)
	}
}

// A registry that is slow to say its dates answers what the protocol asks for all the same.
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
	if n := u.Count(registrytest.Dates); n > 12 { // each is sent three times at most
		t.Errorf("beside %d questions for dates", n)
	}
}

// Only a registry that answers says that a version has no date. What it refuses, or fails to answer, is not known.
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
