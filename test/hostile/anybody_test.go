//go:build linux

package hostile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// walked lets everybody read some modules, and requires a token for the others.
const walked = `
upstreams: [{host: open.evil.test, private: true}, {host: shut.evil.test, private: true, docs: https://docs.evil.test}, {host: up-a.test}]
routes: [{namespace: inside, upstream: shut.evil.test}]
anonymous: [open.evil.test/public]
auth: {required: true, signed_paths: 1m}
policy: {rules: [{deny: "*/*/net/barred"}]}
egress: {ca_file: CA}
log: {level: debug}
shutdown: 5s
`

// houses are the registries with their namespaces. Each namespace has the module net and the provider toy.
var houses = map[string][]string{
	"open.evil.test": {"public", "mine", "theirs"},
	"shut.evil.test": {"inside", "closed"},
}

// asker is a client. It may read what its scopes, if any, cover, and what is open to everybody.
type asker struct {
	name, header string
	scope        string
	unknown      bool // shows no valid credential
}

func (who asker) reads(host, namespace string) bool {
	covers := []string{host + "/" + namespace, host + "/*"}
	return !who.unknown && (slices.Contains(covers, who.scope) || slices.Contains(covers, "open.evil.test/public"))
}

// For a client without access, answers about existing and missing modules have the same bytes: for every client, request and registry.
// Only a client without a credential is anonymous, and reads exactly what is open to everybody.
func TestAnybodyReadsWhatIsForAnybody(t *testing.T) {
	few := shorter(t, "everything is asked once, and of what is cold by GET only; of namespaces that do not exist for one module")
	p := startOwn(t, walked)
	p.keepConnections(t)
	upstreams := map[string]*registrytest.Upstream{}
	for host, namespaces := range houses {
		u := registrytest.New(t, house(namespaces))
		upstreams[host] = u
		strangerAt(t, host, listing(u, namespaces))
	}
	revoked := p.token("revoked", "--scope", "*")
	p.verb("token", "revoke", "revoked")
	askers := []asker{
		{name: "nobody"},
		{name: "mine", header: p.token("mine", "--scope", "open.evil.test/mine"), scope: "open.evil.test/mine"},
		{name: "shut", header: p.token("shut", "--scope", "shut.evil.test/*"), scope: "shut.evil.test/*"},
		{name: "operator", header: p.token("admin", "--admin")},
		{name: "bad", header: "Bearer mp_" + strings.Repeat("a", 16) + "_" + strings.Repeat("b", 52), unknown: true},
		{name: "revoked", header: revoked, unknown: true},
		{name: "no token", header: "Basic Og==", unknown: true},
	}
	versions := module{"open.evil.test", "public", "net", "aws"}.path("versions")
	if !eventually(func() bool {
		return p.ask(http.MethodGet, versions, "Authorization", revoked).Status == http.StatusUnauthorized
	}) {
		t.Fatal("a revoked token is good")
	}
	w := &walk{p: p, few: few, faces: map[string]rig.Answer{}}
	w.p.run("cold", func(t *testing.T) { w.forbidden(t, askers) })
	for host, u := range upstreams {
		if asked := u.Requests(); len(asked) > 0 {
			t.Errorf("%s was asked what nobody might ask for: %v", host, asked)
		}
	}
	w.p.run("all", func(t *testing.T) {
		for _, m := range w.modules() {
			if w.exists(m) {
				p.mustInstall(m, "1.0.0") // the description is made from the package
			}
			for _, q := range w.questions(m) {
				if strings.HasSuffix(q.name, " record") && !w.exists(m) { // may read all records
					continue
				}
				a := p.ask(q.method, q.path, q.headers...)
				for a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") == "1" { // its package is being read
					time.Sleep(time.Second)
					a = p.ask(q.method, q.path, q.headers...)
				}
				if (a.Status >= 300) == w.exists(m) && q.kept {
					t.Errorf("%s of %v, to who may read everything: %d %s", q.name, m, a.Status, a.Said())
				}
			}
		}
	})
	for _, round := range []string{"kept", "again"} {
		if few && round == "again" {
			continue
		}
		w.p.run(round, func(t *testing.T) { w.everything(t, askers) })
		w.p.run("lists-"+round, func(t *testing.T) { w.lists(t, askers) })
	}
	w.p.run("others", func(t *testing.T) { w.others(t, askers) })
}

// walk sends every request.
type walk struct {
	p     *proxy
	few   bool                  // only some of the requests
	faces map[string]rig.Answer // the first answer of each group that must be alike
}

// question is a request about a module.
type question struct {
	name, method, path string
	headers            []string
	kept               bool // has an answer for every existing module
}

// modules are existing and missing modules.
func (w *walk) modules() (all []module) {
	for _, host := range slices.Sorted(maps.Keys(houses)) {
		for _, namespace := range append(houses[host], "nowhere", "publicly") {
			all = append(all, module{host, namespace, "net", "aws"})
			if !w.few || slices.Contains(houses[host], namespace) {
				all = append(all, module{host, namespace, "absent", "aws"})
			}
		}
	}
	return all
}

func (w *walk) exists(m module) bool {
	return m.name == "net" && slices.Contains(houses[m.host], m.namespace)
}

func (w *walk) questions(m module) (all []question) {
	of := "/v1/modules/" + m.namespace + "/" + m.name + "/" + m.system
	toy := m.namespace + "/toy"
	if m.name == "absent" {
		toy = m.namespace + "/absent"
	}
	provider, mirror := "/"+m.host+"/v1/providers/"+toy+"/", "/-/mirror/"+m.host+"/"+toy+"/"
	file := "terraform-provider-" + toy[len(m.namespace)+1:] + "_1.0.0_"
	paths := map[string]string{
		"versions": m.path("versions"), "download": m.path("1.0.0/download"), "download of the latest": m.path("download"),
		"download of no version": m.path("9.9.9/download"), "package": m.archive("1.0.0"), "package of no version": m.archive("9.9.9"),
		"details of the latest": "/" + m.host + of, "details": m.path("1.0.0"), "details of no version": m.path("9.9.9"),
		"downloads": m.path("downloads/summary"), "history": "/" + m.host + "/v2/modules/" + of[len("/v1/modules/"):] + "?include=module-versions",
		"provider versions": provider + "versions", "provider download": provider + "1.0.0/download/linux/amd64",
		"provider sums": provider + "1.0.0/" + file + "SHA256SUMS", "provider package": provider + "1.0.0/linux_amd64/" + file + "linux_amd64.zip",
		"mirror index": mirror + "index.json", "mirror version": mirror + "1.0.0.json",
		"record": "/-/sumdb/modproxy/lookup/" + m.host + "/" + m.namespace + "/" + m.name + "/aws@v1.0.0",
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		kept := !strings.Contains(name, "no version") && name != "provider sums"
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			all = append(all, question{method + " " + name, method, paths[name], nil, kept})
		}
	}
	if m.host == "shut.evil.test" {
		for _, rest := range []string{"/index.json", "/v1.0.0/index.json", "/v9.9.9/index.json"} {
			name := "docs " + strings.Replace(rest, "v9.9.9", "of no version", 1)
			all = append(all, question{name, http.MethodGet, "/registry/docs" + strings.TrimPrefix(of, "/v1") + rest, []string{"Host", "docs.evil.test"}, rest != "/v9.9.9/index.json"})
		}
	}
	for _, rest := range []string{"/versions", "/1.0.0/download", "/1.0.0", ""} {
		all = append(all, question{"under its name: " + rest, http.MethodGet, of + rest, []string{"Host", m.host}, true})
	}
	return all
}

// may reports whether an asker may have the answer to q. Records are for operators, and never for anonymous clients.
func (w *walk) may(who asker, m module, q question) bool {
	if strings.HasSuffix(q.name, " record") && (who.header == "" || who.name == "operator") {
		return who.name == "operator"
	}
	return who.reads(m.host, m.namespace)
}

func (w *walk) ask(who asker, q question) rig.Answer {
	return w.p.ask(q.method, q.path, append([]string{"Authorization", who.header}, q.headers...)...)
}

// forbidden sends the requests that the askers may not send.
func (w *walk) forbidden(t *testing.T, askers []asker) {
	w.each(askers, func(who asker, m module, q question) {
		if !w.may(who, m, q) && (!w.few || q.method == http.MethodGet) {
			w.refused(t, who, m, q)
		}
	})
}

func (w *walk) each(askers []asker, f func(asker, module, question)) {
	for _, who := range askers {
		for _, m := range w.modules() {
			for _, q := range w.questions(m) {
				f(who, m, q)
			}
		}
	}
}

// refused checks an answer for an asker without access, or about a missing module.
func (w *walk) refused(t *testing.T, who asker, m module, q question) {
	t.Helper()
	status, kind := http.StatusNotFound, "absent"
	switch {
	case who.name == "revoked": // its owner is told the reason
		status, kind = http.StatusUnauthorized, "revoked"
	case who.unknown:
		status, kind = http.StatusUnauthorized, "unknown"
	case who.header == "":
		status, kind = http.StatusUnauthorized, "nobody"
	}
	a := w.ask(who, q)
	if a.Status != status {
		t.Errorf("%s of %v, by %s: %d %s; want %d", q.name, m, who.name, a.Status, a.Said(), status)
		return
	}
	w.alike(t, kind+" "+q.name, fmt.Sprintf("%s of %v, by %s", q.name, m, who.name), a)
}

// alike checks that answers of one kind cannot be distinguished.
func (w *walk) alike(t *testing.T, kind, what string, a rig.Answer) {
	t.Helper()
	if _, ok := w.faces[kind]; !ok {
		w.faces[kind] = a
	}
	alike(t, what, a, w.faces[kind])
}

// everything sends every request.
func (w *walk) everything(t *testing.T, askers []asker) {
	w.each(askers, func(who asker, m module, q question) {
		isThere := w.exists(m) && !strings.Contains(q.name, "no version")
		switch {
		case !w.may(who, m, q):
			w.refused(t, who, m, q)
		case !isThere && strings.HasSuffix(q.name, " record"): // the server of such records answers it
		case q.kept || !isThere:
			if a := w.ask(who, q); (a.Status < 300) != isThere {
				t.Errorf("%s of %v, by %s: %d %s", q.name, m, who.name, a.Status, a.Said())
			} else if named := string(a.Body); strings.Contains(named, "barred") ||
				m.host == "open.evil.test" && isThere && strings.HasPrefix(q.name, "GET details") &&
					!strings.Contains(named, `"providers":["aws","seen"]`) {
				t.Errorf("%s of %v, by %s, names other systems than it may: %s", q.name, m, who.name, named)
			} else if a.Status == http.StatusNotFound {
				w.alike(t, "absent "+q.name, fmt.Sprintf("%s of %v, by %s", q.name, m, who.name), a)
			}
		}
	})
}

// page is a part of a list.
type page struct {
	Meta struct {
		Next *int `json:"next_offset"`
	}
	Modules []struct{ Namespace string }
}

// lists checks that lists have exactly the readable modules, and that no page reveals more.
func (w *walk) lists(t *testing.T, askers []asker) {
	for _, who := range askers {
		seen := map[list]bool{}
		for _, m := range w.modules() {
			n := m.namespace
			for _, l := range []list{
				{m.host, "?", "", ""}, {m.host, "?namespace=" + n, n, ""}, {m.host, "/" + n + "?", n, ""},
				{m.host, "/" + n + "/" + m.name + "?", n, m.name}, {m.host, "/search?q=" + m.name, "", m.name},
				{m.host, "/search?q=" + m.name + "&namespace=" + n, n, m.name}, {m.host, "/search?q=canary-" + n, "", "canary-" + n},
			} {
				if seen[l] {
					continue
				}
				seen[l] = true
				w.list(t, who, l, "/"+m.host+"/v1/modules")
				w.list(t, who, l, "/v1/modules", "Host", m.host)
			}
		}
	}
}

// list selects modules of a registry, or of one namespace, whose description has a word.
type list struct{ host, query, namespace, word string }

func (l list) has(namespace string) bool {
	return (l.namespace == "" || l.namespace == namespace) && strings.Contains("net canary-"+namespace, l.word)
}

// list checks that all pages of a list together have the modules that an asker may read.
func (w *walk) list(t *testing.T, who asker, l list, base string, headers ...string) {
	t.Helper()
	may := func(namespace string) bool { return who.reads(l.host, namespace) }
	var want, got []string
	for _, namespace := range houses[l.host] {
		if may(namespace) && l.has(namespace) {
			want = append(want, namespace)
		}
	}
	refused := who.unknown || who.header == "" && (!slices.ContainsFunc(houses[l.host], may) || l.namespace != "" && !may(l.namespace))
	for offset, more := 0, true; more; offset++ {
		path := fmt.Sprintf("%s%s&limit=1&offset=%d", base, l.query, offset)
		what := path + " by " + who.name
		a := w.p.ask(http.MethodGet, path, append(headers, "Authorization", who.header)...)
		if refused != (a.Status == http.StatusUnauthorized) || !refused && a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", what, a.Status, a.Said())
			return
		}
		if refused || len(want) == 0 {
			w.alike(t, fmt.Sprint("list ", refused, who.unknown, who.name == "revoked"), what, a)
			return
		}
		var now page
		if err := json.Unmarshal(a.Body, &now); err != nil || len(now.Modules) != 1 {
			t.Errorf("%s: %s, %v", what, a.Body, err)
			return
		}
		got, more = append(got, now.Modules[0].Namespace), now.Meta.Next != nil
		for _, namespace := range houses[l.host] {
			if strings.Contains(string(a.Body), "canary-"+namespace) && !may(namespace) && !strings.Contains(l.query, "canary-"+namespace) {
				t.Errorf("%s tells of %s: %s", what, namespace, a.Body)
			}
		}
	}
	if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("%s%s by %s: %v; want %v", base, l.query, who.name, got, want)
	}
}

// others checks that anonymous clients get no answer that covers more than one module.
func (w *walk) others(t *testing.T, askers []asker) {
	for _, path := range []string{
		"/", "/-/metrics", "/-/sumdb/key", "/-/sumdb/modproxy/supported", "/-/sumdb/modproxy/latest", "/-/sumdb/modproxy/tile/8/0/000.p/1",
		"/-/sumdb/modproxy/tile/8/data/000.p/1", "/-/api/packages", "/-/api/ledger/records", "/-/api/pending",
		"/gone.evil.test/v1/modules/public/net/aws/versions", "/open.evil.test/v1/modules/public/net/aws/1.0.0/1.0.0",
		"/open.evil.test/.well-known/terraform.json", "/shut.evil.test/.well-known/terraform.json", "/gone.evil.test/.well-known/terraform.json",
		"/v1/modules/public", "/v1/modules/inside/net/aws/versions", "/shut.evil.test/v1/modules/%2e%2e/x/y/versions",
	} {
		for _, who := range askers {
			a := w.p.ask(http.MethodGet, path, "Authorization", who.header)
			inScope := path == "/v1/modules/public" || path == "/open.evil.test/.well-known/terraform.json"
			if (who.unknown || who.header == "" && !inScope) != (a.Status == http.StatusUnauthorized) {
				t.Errorf("%s by %s: %d %s", path, who.name, a.Status, a.Said())
			}
		}
	}
	// Other paths of a registry cover all of its modules.
	for host := range houses {
		for _, path := range []string{"/.well-known/terraform.json", "/files/all"} {
			tells := func(who ...string) bool {
				a := w.p.ask(http.MethodGet, path, append(who, "Host", host)...)
				return strings.Contains(string(a.Body), "canary") || strings.Contains(string(a.Body), "all.v1")
			}
			if !tells() {
				t.Errorf("%s of %s, to who may read everything, tells of nothing", path, host)
			}
			for _, who := range askers {
				if tells("Authorization", who.header) != (who.scope == host+"/*") {
					t.Errorf("%s of %s tells %s of what is not for it, or not of what is", path, host, who.name)
				}
			}
		}
	}
}
