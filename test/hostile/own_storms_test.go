//go:build linux

package hostile_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// brieflyFresh lets every request for versions reach the forge.
const brieflyFresh = "cache: {fresh: 1ms, missing: 1ms}\n"

// Tags that move with every question never mix the content of two commits: each version has the tree of the recorded commit, for every
// client and for ever. A later move of a recorded version is drift.
func TestTagsThatMove(t *testing.T) {
	const host, path, commits = "moving.evil.test", "/acme/vpc.git", 7
	versions, clients := 12, 8
	if shorter(t, "6 versions that move instead of 12") {
		versions, clients = 6, 4
	}
	f := newForge(t, host)
	texts := map[string]string{} // by commit
	var ids []string
	for i := range commits {
		text := fmt.Sprintf("# commit %d\n", i)
		id := f.commit(path, text)
		texts[id], ids = text, append(ids, id)
	}
	turn := 0
	var moving atomic.Bool
	moving.Store(true)
	move := func(r *repo) {
		if !moving.Load() {
			return
		}
		for i := range versions {
			turn++
			r.set(fmt.Sprintf("v1.0.%d", i), ids[turn%commits])
		}
	}
	f.mu.Lock()
	move(f.repo(path))
	f.repo(path).listed = move
	f.mu.Unlock()
	p := startOwn(t, own(brieflyFresh, "acme "+host))
	m := ownModule("acme", "vpc")
	var mu sync.Mutex
	trees := map[string]string{} // the text of each version
	install := func(t *testing.T, version string) {
		t.Helper()
		tree := p.mustInstall(m, version)
		text := tree["main.tf"].data
		if tree["a.tf"].data != text {
			t.Errorf("%s is of two commits: %v", version, tree)
		}
		mu.Lock()
		defer mu.Unlock()
		if first, ok := trees[version]; ok && first != text {
			t.Errorf("%s is %q, and was %q", version, text, first)
		}
		trees[version] = text
	}
	p.run("moving", func(t *testing.T) {
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				for i := range versions {
					p.ask(http.MethodGet, m.path("versions"))
					install(t, fmt.Sprintf("1.0.%d", i))
				}
			})
		}
		group.Wait()
	})
	p.run("recorded", func(t *testing.T) {
		for record := range strings.Lines(p.verb("ledger", "show")) {
			fields := strings.Fields(record) // module, version, sum, time, source, commit
			if len(fields) < 6 || texts[fields[5]] == "" || texts[fields[5]] != trees[fields[1]] {
				t.Errorf("the record %q; the tree %q", record, trees[fields[1]])
			}
		}
		if len(trees) != versions {
			t.Errorf("%d versions", len(trees))
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.heads > 0 {
			t.Errorf("%d downloads requested a name, not the commit of its tag", f.heads)
		}
	})
	// Removed packages come back from the recorded commit: after tags moved, were removed, and were added again.
	moving.Store(false)
	for _, step := range []struct {
		name   string
		change func(r *repo, version string)
	}{
		{"moved", func(r *repo, version string) {
			for id, text := range texts {
				if text != trees[version] {
					r.set("v"+version, id)
					return
				}
			}
		}},
		{"removed", func(r *repo, version string) { r.set("v"+version, "") }},
		{"replaced", func(r *repo, version string) { r.set(version, ids[0]); r.set("v"+version, ids[1]) }}, // two tags of one version
	} {
		p.run(step.name, func(t *testing.T) {
			for i := range 2 {
				version := fmt.Sprintf("1.0.%d", i)
				f.mu.Lock()
				step.change(f.repo(path), version)
				f.mu.Unlock()
				p.operate("rm", m.address(), version, "--yes")
				if a := p.asClient(m.path("versions")); !slices.Contains(listed(a), version) {
					t.Errorf("%s is not listed: %d %.200s", version, a.Status, a.Body)
				}
				install(t, version)
			}
			if out, err := p.attempt("ledger", "drift", "--data", p.data); step.name == "moved" && (err == nil || !strings.Contains(out, " 1.0.0")) {
				t.Errorf("drift: %v %s", err, out)
			}
		})
	}
}

// While tags are pushed and removed, each list has the tags of one time.
func TestTagsArePushed(t *testing.T) {
	const host, path = "pushed.evil.test", "/acme/vpc.git"
	pushes, each := 100, 10
	if shorter(t, "300 pushed tags instead of 1000") {
		pushes = 30
	}
	f := newForge(t, host)
	id := f.commit(path, "# good\n")
	f.mu.Lock()
	pushed := 0
	push := func(r *repo) {
		for range each {
			if pushed < pushes*each {
				r.tags = append(r.tags, tag{fmt.Sprintf("v1.0.%d", pushed), id})
				pushed++
			}
		}
	}
	push(f.repo(path))
	f.repo(path).listed = push
	f.mu.Unlock()
	p := startOwn(t, own(brieflyFresh, "acme "+host))
	m := ownModule("acme", "vpc")
	p.run("pushes", func(t *testing.T) {
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				last := 0
				for last < pushes*each {
					a := p.asClient(m.path("versions"))
					list := listed(a)
					if a.Status != http.StatusOK || len(list)%each != 0 || len(list) < last {
						t.Errorf("%d versions after %d: %d %.200s", len(list), last, a.Status, a.Body)
						return
					}
					for i, version := range list {
						if want := fmt.Sprintf("1.0.%d", i); version != want {
							t.Errorf("version %d is %s, want %s", i, version, want)
							return
						}
					}
					last = len(list)
				}
			})
		}
		group.Wait()
		p.mustInstall(m, fmt.Sprintf("1.0.%d", pushes*each-1))
	})
}

// A forge that fails in any way unlists no recorded version, and prevents no installation of it, also after a restart. Other forges are
// asked as before.
func TestForgesThatFail(t *testing.T) {
	const goodHost = "well.evil.test"
	status := func(status int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		}
	}
	failures := map[string]http.HandlerFunc{
		"cut": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"401": status(401), "403": status(403), "404": status(404), "429": status(429, "Retry-After", "1"), "500": status(500),
		"502": status(502), "503": status(503, "Retry-After", "1"), "login": status(302, "Location", "https://"+goodHost+"/login"),
		"page": func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("<html>maintenance</html>")) },
	}
	few := shorter(t, "2 kinds of failures instead of 10, and the forges do not recover")
	if few {
		maps.DeleteFunc(failures, func(name string, _ http.HandlerFunc) bool { return name != "401" && name != "page" })
	}
	good := newForge(t, goodHost)
	forges := map[string]*forge{}
	lines := []string{"good " + goodHost}
	var failing atomic.Bool
	for name, fail := range failures {
		host := name + "-fails.evil.test"
		f := newForge(t, host)
		f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
			isFailing := failing.Load()
			if isFailing {
				fail(w, r)
			}
			return isFailing
		}
		path := "/f" + name + "/vpc.git"
		id := f.commit(path, "# "+name+"\n")
		f.tag(path, id, "v1.0.0", "v1.1.0")
		forges[name], lines = f, append(lines, "f"+name+" "+host)
	}
	p := startOwn(t, own(brieflyFresh, lines...))
	for name := range failures {
		p.mustInstall(ownModule("f"+name, "vpc"), "1.0.0")
	}
	n := 0
	check := func(t *testing.T, name string) {
		t.Helper()
		m := ownModule("f"+name, "vpc")
		for range 4 { // as often as makes an outage
			if a := p.ask(http.MethodGet, m.path("versions")); !slices.Contains(listed(a), "1.0.0") {
				t.Errorf("the recorded version is not listed: %d %.300s", a.Status, a.Body)
			}
		}
		p.mustInstall(m, "1.0.0")
		for _, a := range []int{p.status(ownModule("f"+name, "new").path("versions")), p.status(m.path("1.1.0/download"))} {
			isMissing := name == "404"
			if a < 400 || a == http.StatusInternalServerError || isMissing != (a == http.StatusNotFound) {
				t.Errorf("without a record: %d", a)
			}
		}
		n++
		path := fmt.Sprintf("/good/m%d.git", n)
		good.tag(path, good.commit(path, "# good\n"), "v1.0.0")
		p.mustInstall(ownModule("good", fmt.Sprint("m", n)), "1.0.0")
	}
	failing.Store(true)
	for name := range failures {
		p.run(name, func(t *testing.T) { check(t, name) })
	}
	p.stop()
	p.write("modproxy.yaml", strings.Replace(string(p.config()), "fresh: 1ms", "fresh: 1ms, max_stale: 1ms", 1))
	p.launch()
	for name := range failures {
		p.run(name+"-restarted", func(t *testing.T) { check(t, name) })
	}
	if few {
		return
	}
	failing.Store(false)
	for name, f := range forges {
		path := "/f" + name + "/vpc.git"
		f.tag(path, f.commit(path, "# new\n"), "v1.2.0")
	}
	p.run("afterwards", func(t *testing.T) {
		for name := range failures {
			m := ownModule("f"+name, "vpc")
			if !eventually(func() bool {
				return slices.Equal(listed(p.ask(http.MethodGet, m.path("versions"))), []string{"1.0.0", "1.1.0", "1.2.0"})
			}) {
				t.Errorf("%s: its forge works again, and its versions are %q", name, listed(p.ask(http.MethodGet, m.path("versions"))))
			}
		}
	})
}
