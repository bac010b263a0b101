package proxy_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
)

var published = time.Date(2021, 8, 5, 0, 26, 33, 501756000, time.UTC)

// told is a catalog with fixed answers. It records the last query for a list.
type told struct {
	answered modproxy.Answered
	asked    modproxy.Query
	page     modproxy.Page
	details  map[modproxy.Ref]*modproxy.Details
	history  *modproxy.History
}

func (c *told) Details(_ context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	if d := c.details[v]; d != nil {
		return d, nil
	}
	d := &modproxy.Details{
		Summary: modproxy.Summary{
			Ref: v, Source: "https://git.example.com/acme/network", Tag: "v" + v.Version, Published: published, Downloads: 7, Verified: true,
		},
		Root: modproxy.Part{
			Name: v.Name, Readme: "# Network",
			Inputs: []modproxy.Input{
				{Name: "cidr", Type: "string", Description: "<the> range", Default: `"10.0.0.0/8"`},
				{Name: "count", Type: "any", Required: true},
			},
			Outputs:   []modproxy.Output{{Name: "id"}},
			Calls:     []modproxy.PartCall{{Name: "base", Source: "acme/base/aws", Version: "~> 1.0"}},
			Providers: []modproxy.PartNeed{{Name: "aws", Namespace: "hashicorp", Source: "hashicorp/aws", Version: ">= 5"}},
			Resources: []modproxy.PartManaged{{Name: "this", Type: "aws_vpc"}},
		},
		Submodules: []modproxy.Part{{Path: "modules/subnet", Name: "subnet"}},
		Systems:    []string{"alicloud", "google"},
		Answered:   c.answered,
	}
	if c.details == nil {
		c.details = map[modproxy.Ref]*modproxy.Details{}
	}
	c.details[v] = d
	return d, nil
}

func (c *told) History(_ context.Context, m modproxy.Address) (*modproxy.History, error) {
	if c.history == nil {
		c.history = &modproxy.History{
			Module: m, Source: "https://git.example.com/acme/network", Downloads: 9,
			Versions: []modproxy.DatedVersion{{Version: "1.0.0", Published: published, Tag: "v1.0.0"}, {Version: "1.1.0", Published: published}},
			Answered: c.answered,
		}
	}
	return c.history, nil
}

func (c *told) Downloads(context.Context, modproxy.Address) (*modproxy.Downloads, error) {
	return &modproxy.Downloads{Week: 1, Month: 2, Year: 3, Total: 4}, nil
}

func (c *told) Text(_ context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	return &modproxy.Text{Content: "# " + id + " of " + v.Version + "\n<b>"}, nil
}

func (c *told) List(_ context.Context, q modproxy.Query) (*modproxy.Page, error) {
	c.asked = q
	return &c.page, nil
}

// describing returns a handler that describes modules by a catalog.
func describing(t testing.TB, c *told, change func(*proxy.Config)) http.Handler {
	return newHandler(t, func(cfg *proxy.Config, s *scripted) {
		cfg.Catalog, cfg.Listing = c, s
		if change != nil {
			change(cfg)
		}
	})
}

const summaryOf110 = `"id":"acme/network/aws/1.1.0","owner":"","namespace":"acme","name":"network","version":"1.1.0","provider":"aws",` +
	`"provider_logo_url":"","description":"","source":"https://git.example.com/acme/network","tag":"v1.1.0",` +
	`"published_at":"2021-08-05T00:26:33.501756Z","downloads":7,"verified":true`

// detailsOf110 is read by programs: terraform-ls (internal/registry/module.go), terraform-mcp-server (pkg/client/types.go).
const detailsOf110 = `{` + summaryOf110 + `,"root":{"path":"","name":"network","readme":"# Network","empty":false,` +
	`"inputs":[{"name":"cidr","type":"string","description":"<the> range","default":"\"10.0.0.0/8\"","required":false},` +
	`{"name":"count","type":"any","description":"","default":"","required":true}],"outputs":[{"name":"id","description":""}],` +
	`"dependencies":[{"name":"base","source":"acme/base/aws","version":"~> 1.0"}],` +
	`"provider_dependencies":[{"name":"aws","namespace":"hashicorp","source":"hashicorp/aws","version":">= 5"}],` +
	`"resources":[{"name":"this","type":"aws_vpc"}]},` +
	`"submodules":[{"path":"modules/subnet","name":"subnet","readme":"","empty":false,"inputs":[],"outputs":[],"dependencies":[],` +
	`"provider_dependencies":[],"resources":[]}],"examples":[],"providers":["alicloud","aws","google"],"versions":["1.0.0","1.1.0","2.0.0-beta.1"],"deprecation":null}
`

func TestDetails(t *testing.T) {
	h := describing(t, &told{}, nil)
	for _, path := range []string{base + "/1.1.0", base + "/v1.1", base, base + "/latest", "/v1/modules/acme/network/aws/1.1.0?offset=0"} {
		res := get(h, path)
		if got := body(t, res); got != detailsOf110 {
			t.Errorf("%s: %d\n%swant\n%s", path, res.StatusCode, got, detailsOf110)
		}
	}
	if res := get(h, base+"/9.9.9"); res.StatusCode != 200 { // whether there is one is what the catalog says
		t.Error(res.Status)
	}
	for path, want := range map[string]int{
		base + "/newest": 400, base + "/1.1.0/summary": 404, "/v1/modules/acme/none/aws": 404, "/" + host + "/v1/modules/acme/network/AWS": 400,
	} {
		if res := get(h, path); res.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, res.Status, want)
		}
	}
	if res := do(h, "POST", base+"/1.1.0"); res.StatusCode != 405 {
		t.Error(res.Status)
	}
	if res := get(newHandler(t, nil), base+"/1.1.0"); res.StatusCode != 404 {
		t.Error("without a catalog:", res.Status)
	}
}

func TestDetailsKept(t *testing.T) {
	at := time.Now().Add(-5 * time.Second)
	c := &told{answered: modproxy.Answered{Time: at, Hit: true}}
	h := describing(t, c, nil)
	res := get(h, base+"/1.1.0")
	etag := res.Header.Get("Etag")
	if got := res.Header.Get("Cache-Status") + ", " + res.Header.Get("Age"); got != "modproxy; hit, 5" {
		t.Error(got)
	}
	if res := get(h, base+"/1.1.0", "If-None-Match", etag); res.StatusCode != 304 || body(t, res) != "" {
		t.Error(res.Status)
	}
	zipped := get(h, base+"/1.1.0", "Accept-Encoding", "gzip")
	unzipped, err := gzip.NewReader(zipped.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(unzipped); err != nil || string(got) != detailsOf110 || zipped.Header.Get("Vary") != "Accept-Encoding" {
		t.Errorf("%v %s", zipped.Header, got)
	}
	if res := do(h, "HEAD", base+"/1.1.0"); res.StatusCode != 200 || res.Header.Get("Etag") != etag {
		t.Error(res.Status, res.Header)
	}
	c.details, c.answered.Stale = nil, true
	if res := get(h, base+"/1.1.0"); res.Header.Get("Cache-Status") != "modproxy; hit; detail=stale" || res.Header.Get("Etag") != etag {
		t.Error(res.Header)
	}
	if res := get(h, base); body(t, res) != detailsOf110 {
		t.Error("the latest version has another document")
	}
}

// The document of a client has the versions that the client is listed.
func TestDetailsListsVersions(t *testing.T) {
	var s *scripted
	h := newHandler(t, func(cfg *proxy.Config, scripted *scripted) { s, cfg.Catalog, cfg.Listing = scripted, &told{}, scripted })
	all := body(t, get(h, base+"/1.1.0"))
	s.how = func(v *modproxy.Versions) {
		some, err := v.Only(func(l modproxy.Listed) bool { return l.Version.String() == "1.1.0" })
		if err != nil {
			t.Fatal(err)
		}
		*v = *some
	}
	if got := body(t, get(h, base+"/1.1.0")); !strings.Contains(got, `"versions":["1.1.0"]`) {
		t.Error(got)
	}
	s.how = nil
	if got := body(t, get(h, base+"/1.1.0")); got != all {
		t.Error(got)
	}
}

func TestHistory(t *testing.T) {
	h := describing(t, &told{}, nil)
	const want = `{"data":{"type":"modules","id":"acme/network/aws","attributes":{"downloads":9,"full-name":"acme/network/aws","name":"network",` +
		`"namespace":"acme","owner-name":"","provider-logo-url":"","provider-name":"aws","source":"https://git.example.com/acme/network",` +
		`"verified":false},"relationships":{"module-versions":{"data":[{"type":"module-versions","id":"acme/network/aws/1.0.0"},` +
		`{"type":"module-versions","id":"acme/network/aws/1.1.0"}]}},"links":{"self":"/v2/modules/acme/network/aws"}},"included":[` +
		`{"type":"module-versions","id":"acme/network/aws/1.0.0","attributes":{"created-at":"2021-08-05T00:26:33.501756Z","description":"",` +
		`"downloads":0,"published-at":"2021-08-05T00:26:33.501756Z","source":"","tag":"v1.0.0","updated-at":"2021-08-05T00:26:33.501756Z",` +
		`"version":"1.0.0"},"links":{"self":"/v1/modules/acme/network/aws/1.0.0"}},` +
		`{"type":"module-versions","id":"acme/network/aws/1.1.0","attributes":{"created-at":"2021-08-05T00:26:33.501756Z","description":"",` +
		`"downloads":0,"published-at":"2021-08-05T00:26:33.501756Z","source":"","tag":"","updated-at":"2021-08-05T00:26:33.501756Z",` +
		`"version":"1.1.0"},"links":{"self":"/v1/modules/acme/network/aws/1.1.0"}}]}` + "\n"
	for _, path := range []string{"/v2/modules/acme/network/aws?include=module-versions", "/" + host + "/v2/modules/acme/network/aws"} {
		if got := body(t, get(h, path)); got != want {
			t.Errorf("%s:\n%swant\n%s", path, got, want)
		}
	}
	const summary = `{"data":{"type":"module-downloads-summary","id":"acme/network/aws","attributes":{"month":2,"total":4,"week":1,"year":3}}}` + "\n"
	if got := body(t, get(h, base+"/downloads/summary")); got != summary {
		t.Error(got)
	}
}

func TestDocs(t *testing.T) {
	h := describing(t, &told{}, func(c *proxy.Config) {
		c.Local, c.Upstreams.Docs = true, map[string]string{"api.example.org": host}
	})
	at := func(path string) *http.Response {
		return get(h, "/registry/docs/modules/acme/network/aws/"+path, "Host", "api.example.org")
	}
	const index = `{"addr":{"display":"acme/network/aws","namespace":"acme","name":"network","target":"aws"},"versions":[` +
		`{"id":"v1.1.0","published":"2021-08-05T00:26:33.501756Z"},{"id":"v1.0.0","published":"2021-08-05T00:26:33.501756Z"}]}` + "\n"
	if got := body(t, at("index.json")); got != index {
		t.Error(got)
	}
	const version = `{"id":"v1.1.0","published":"2021-08-05T00:26:33.501756Z","readme":true,"variables":{` +
		`"cidr":{"name":"cidr","type":"string","description":"<the> range","default":"10.0.0.0/8","required":false},` +
		`"count":{"name":"count","type":"any","description":"","default":null,"required":true}},"outputs":{"id":{"name":"id","description":""}},` +
		`"dependencies":[{"name":"base","source":"acme/base/aws","version_constraint":"~> 1.0"}],` +
		`"providers":[{"name":"aws","full_name":"hashicorp/aws","version_constraint":">= 5"}],` +
		`"resources":[{"address":"aws_vpc.this","type":"aws_vpc","name":"this"}],` +
		`"submodules":{"subnet":{"path":"modules/subnet","variables":{},"outputs":{},"dependencies":[],"providers":[],"resources":[]}},` +
		`"examples":{},"vcs_repository":"https://git.example.com/acme/network"}` + "\n"
	if got := body(t, at("v1.1.0/index.json")); got != version {
		t.Error(got)
	}
	for path, want := range map[string]int{"v1.1.0": 404, "v1.1.0/x/index.json": 404, "newest/index.json": 400} {
		if res := at(path); res.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, res.Status, want)
		}
	}
	if res := get(h, "/registry/docs/modules/acme/network/aws/index.json", "Host", host); res.StatusCode != 404 {
		t.Error("at another name:", res.Status)
	}
}

func TestLists(t *testing.T) {
	c := &told{}
	h := describing(t, c, func(cfg *proxy.Config) {
		cfg.Upstreams.Hosts["corp.example"] = true
		cfg.Upstreams.Namespaces = map[string]string{"corp": "corp.example"}
	})
	usual := modproxy.Query{Host: host, Limit: 15}
	with := func(change func(*modproxy.Query)) modproxy.Query {
		q := usual
		change(&q)
		return q
	}
	for path, want := range map[string]modproxy.Query{
		"/v1/modules":                   usual,
		"/v1/modules/":                  usual,
		"/v1/modules?offset=0&x=%zz":    {},
		"/v1/modules?offset=30":         with(func(q *modproxy.Query) { q.Offset = 30 }),
		"/v1/modules?limit=1000":        with(func(q *modproxy.Query) { q.Limit = 100 }),
		"/v1/modules?limit=0":           {},
		"/v1/modules?limit=-1":          {},
		"/v1/modules?offset=-1":         {},
		"/v1/modules?offset=2147483648": {}, // the last offset, without a next page
		"/v1/modules?offset=x":          {},
		"/v1/modules?provider=AWS":      with(func(q *modproxy.Query) { q.System = "aws" }),
		"/v1/modules?provider=a%2fb":    {},
		"/v1/modules?verified=true":     with(func(q *modproxy.Query) { q.Verified = true }),
		"/v1/modules?verified=false":    usual,
		"/v1/modules/acme":              with(func(q *modproxy.Query) { q.Namespace = "acme" }),
		"/v1/modules/acme/net":          with(func(q *modproxy.Query) { q.Namespace, q.Name = "acme", "net" }),
		"/v1/modules/search/net":        with(func(q *modproxy.Query) { q.Namespace, q.Name = "search", "net" }),
		"/v1/modules?namespace=..":      {},
		"/v1/modules/a?namespace=b":     {},
		"/v1/modules?namespace=corp":    {Host: "corp.example", Namespace: "corp", Limit: 15},
		"/v1/modules/corp":              {Host: "corp.example", Namespace: "corp", Limit: 15},
		"/" + host + "/v1/modules/corp": with(func(q *modproxy.Query) { q.Namespace = "corp" }),
		"/" + host + "/v1/modules/search?q=%27a%22b%27&namespace=corp": with(func(q *modproxy.Query) {
			q.Search, q.Namespace = "a b", "corp"
		}),
		"/v1/modules/search?q=%27net%27&offset=0":          with(func(q *modproxy.Query) { q.Search = "net" }),
		"/v1/modules/search":                               {},
		"/v1/modules/search?q=%27%27":                      {},
		"/v1/modules/search?q=" + strings.Repeat("a", 257): {},
	} {
		c.asked = modproxy.Query{}
		res := get(h, path)
		if diff := cmp.Diff(want, c.asked); diff != "" || (want == modproxy.Query{}) != (res.StatusCode == 400) {
			t.Errorf("%s: %s %s", path, res.Status, diff)
		}
	}
}

func TestListIsPaged(t *testing.T) {
	one := func(namespace string) modproxy.Summary {
		m := modproxy.Address{Host: host, Namespace: namespace, Name: "network", System: "aws"}
		return modproxy.Summary{Ref: m.At("1.1.0"), Source: "https://git.example.com/acme/network", Tag: "v1.1.0", Published: published, Downloads: 7, Verified: true}
	}
	c := &told{page: modproxy.Page{Modules: []modproxy.Summary{one("acme"), one("corp")}, More: true}}
	h := describing(t, c, func(cfg *proxy.Config) {
		cfg.PublicURL = "https://modules.example.com/tf"
		cfg.Upstreams.Namespaces = map[string]string{"corp": "corp.example"}
	})
	const want = `{"meta":{"limit":2,"current_offset":3,"next_offset":5,"next_url":"/tf/v1/modules/search?limit=2&offset=5&q=net",` +
		`"prev_offset":1,"prev_url":"/tf/v1/modules/search?limit=2&offset=1&q=net"},"modules":[{` + summaryOf110 + `}]}` + "\n"
	if got := body(t, get(h, "/v1/modules/search?q=net&limit=2&offset=3")); got != want {
		t.Errorf("%swant\n%s", got, want)
	}
	// The name of the registry itself has no routes.
	var page struct{ Modules []struct{ Namespace string } }
	if err := json.Unmarshal([]byte(body(t, get(h, "/"+host+"/v1/modules"))), &page); err != nil || len(page.Modules) != 2 {
		t.Error(page, err)
	}
	c.page = modproxy.Page{}
	const none = `{"meta":{"limit":15,"current_offset":0,"next_offset":null,"next_url":"","prev_offset":null,"prev_url":""},"modules":[]}` + "\n"
	if got := body(t, get(h, "/v1/modules")); got != none {
		t.Error(got)
	}
}
