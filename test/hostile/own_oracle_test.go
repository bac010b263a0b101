//go:build linux

package hostile_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// refuseSome denies access to the repositories shut and lock.
func refuseSome(w http.ResponseWriter, r *http.Request) bool {
	for name, status := range map[string]int{"shut": http.StatusForbidden, "lock": http.StatusUnauthorized} {
		if strings.Contains(r.URL.Path, "/"+name+".git") {
			w.WriteHeader(status)
			return true
		}
	}
	return false
}

// A client outside the scope cannot distinguish repositories that exist, that do not exist, that deny access, and names that no entry of
// modules matches. Its requests reach no forge.
func TestOwnModulesAreNoOracle(t *testing.T) {
	const forgeHost = "oracle.evil.test"
	f := newForge(t, forgeHost)
	f.refuse = refuseSome
	for _, path := range []string{"/acme/net.git", "/open/net.git"} {
		f.tag(path, f.commit(path, "# net\n"), "v1.0.0")
	}
	p := startOwn(t, own("auth: {required: true, signed_paths: 1m}\nanonymous: ["+modulesHost+"/open]\n"+
		"upstreams: [{host: corp.test, private: true}]\n", "acme "+forgeHost, "open "+forgeHost))
	revoked := p.token("revoked", "--scope", "*")
	p.verb("token", "revoke", "revoked")
	acme := p.token("acme", "--scope", modulesHost+"/acme")
	askers := []asker{
		{name: "nobody"},
		{name: "narrow", header: p.token("narrow", "--scope", "corp.test/corp")},
		{name: "namespace like it", header: p.token("like", "--scope", modulesHost+"/acmes")},
		{name: "operator", header: p.token("admin", "--admin")},
		{name: "bad", header: "Bearer mp_" + strings.Repeat("a", 16) + "_" + strings.Repeat("b", 52), unknown: true},
		{name: "revoked", header: revoked, unknown: true},
	}
	if !eventually(func() bool {
		return p.ask(http.MethodGet, ownModule("acme", "net").path("versions"), "Authorization", revoked).Status == http.StatusUnauthorized
	}) {
		t.Fatal("a revoked token is good")
	}
	var modules []module
	for _, name := range []string{"net", "absent", "shut", "lock", "NET", "a__--b"} {
		modules = append(modules, ownModule("acme", name))
	}
	modules = append(modules, ownModule("nowhere", "net"), ownModule("ACME", "net"), module{modulesHost, "acme", "net", "azure"})
	p.keepConnections(t)
	few := shorter(t, "GET only, and one of the clients when packages are stored")
	w := &walk{p: p, faces: map[string]rig.Answer{}}
	outside := func(t *testing.T) {
		t.Helper()
		before := f.questions()
		for _, who := range askers {
			for _, m := range modules {
				for _, q := range w.questions(m) {
					isOther := strings.HasSuffix(q.name, " record") || m.namespace == "ACME" && strings.Contains(q.name, "provider package")
					if isOther || q.method == http.MethodHead && few {
						continue // records are for operators; no provider's package has capitals in its path
					}
					w.refused(t, who, m, q)
				}
				for _, rest := range []string{"versions", "1.0.0/download", "1.0.0", ""} {
					path := strings.TrimSuffix("/v1/modules/"+m.namespace+"/"+m.name+"/"+m.system+"/"+rest, "/")
					w.refused(t, who, m, question{name: "by namespace: " + rest, method: http.MethodGet, path: path})
				}
			}
		}
		if f.questions() > before {
			t.Errorf("the forge was asked: %q", f.asked[before:])
		}
	}
	p.run("cold", outside)
	// A client in the scope learns no URL from a 404.
	p.run("inside", func(t *testing.T) {
		first := map[string]rig.Answer{}
		for _, m := range modules {
			for _, rest := range []string{"versions", "1.0.0/download", "9.9.9/download", "download"} {
				for _, who := range []string{acme, ""} {
					m := m
					if who == "" {
						m.namespace = strings.Replace(m.namespace, "acme", "open", 1)
					}
					a := p.ask(http.MethodGet, m.path(rest), "Authorization", who)
					if said := string(a.Body); a.Status == http.StatusNotFound && (strings.Contains(said, "evil.test") || strings.Contains(said, ".git") || strings.Contains(said, "git ")) {
						t.Errorf("%s by %q: %d %s", m.path(rest), who, a.Status, said)
					}
					if who == acme && a.Status == http.StatusNotFound {
						if _, ok := first[rest]; !ok {
							first[rest] = a
						}
						alike(t, m.path(rest), a, first[rest])
					}
				}
			}
		}
		if a := p.ask(http.MethodGet, modules[0].path("versions"), "Authorization", acme); a.Status != http.StatusOK {
			t.Errorf("the scope does not work: %d %s", a.Status, a.Said())
		}
		if a := p.ask(http.MethodGet, ownModule("open", "net").path("versions"), "Authorization", ""); a.Status != http.StatusOK {
			t.Errorf("the open namespace: %d %s", a.Status, a.Said())
		}
		p.mustInstall(modules[0], "1.0.0")
	})
	if few {
		askers = askers[1:2]
	}
	p.run("cached", outside)
}

// flooding is a client at another address than the test's.
func flooding(t testing.TB) *http.Client {
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	connections := &http.Transport{DialContext: from.DialContext, MaxConnsPerHost: 100, MaxIdleConnsPerHost: 100}
	t.Cleanup(connections.CloseIdleConnections)
	return &http.Client{Transport: connections, Timeout: plain.Timeout}
}

// A client that tries the names of a pattern gets its share of the questions to the forge. Another client installs meanwhile. Nothing is
// stored about absent names.
func TestNamesOfAPatternAreTried(t *testing.T) {
	n := 10_000
	if shorter(t, "300 names instead of 10000") {
		n = 300
	}
	const forgeHost, tried = "tried.evil.test", "zqxtried"
	f := newForge(t, forgeHost)
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		isDenied := strings.HasSuffix(r.URL.Path, "1.git/git-upload-pack") // as a forge that hides which repositories exist
		if isDenied {
			w.WriteHeader(http.StatusUnauthorized)
		}
		return isDenied
	}
	for i := range 20 {
		path := fmt.Sprintf("/acme/good%dx.git", i)
		f.tag(path, f.commit(path, fmt.Sprint("# ", i)), "v1.0.0")
	}
	p := startOwn(t, own("", "acme "+forgeHost))
	p.mustInstall(ownModule("acme", "good0x"), "1.0.0")
	client := flooding(t)
	names := make(chan int)
	var group sync.WaitGroup
	var answers [600]atomic.Int32
	var samples sync.Map // by status
	began, before := time.Now(), f.questions()
	for range 50 {
		group.Go(func() {
			for i := range names {
				p.count(1)
				res, err := client.Get(p.url + ownModule("acme", fmt.Sprintf("%s%d", tried, i)).path("versions"))
				if err != nil {
					t.Error(err)
					continue
				}
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				samples.Store(res.StatusCode, string(body))
				answers[res.StatusCode].Add(1)
			}
		})
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for i := range n {
			names <- i
		}
		close(names)
		group.Wait()
	}()
	p.run("others", func(t *testing.T) {
		for i := 1; i < 20; i++ {
			m := ownModule("acme", fmt.Sprintf("good%dx", i))
			if a := p.asClient(m.path("versions")); a.Status != http.StatusOK {
				t.Errorf("%v: %d %s", m, a.Status, a.Said())
			}
			p.mustInstall(m, "1.0.0")
		}
	})
	<-over
	p.run("afterwards", func(t *testing.T) {
		for status := range answers {
			if count := answers[status].Load(); count > 0 {
				sample, _ := samples.Load(status)
				t.Logf("%d answers have status %d, such as %s", count, status, sample)
				if status < 400 || status == http.StatusInternalServerError {
					t.Errorf("%d answers have status %d", count, status)
				}
				if strings.Contains(fmt.Sprint(sample), "evil.test") {
					t.Errorf("the answer names the forge: %s", sample)
				}
			}
		}
		// A question gives its slot to another one while it is late. Downloads are not limited.
		const rate, atOnce, downloads = 100, 16 * 4, 20
		took := time.Since(began)
		if asked := f.questions() - before; asked > rate+int(rate*took.Seconds())+downloads || asked > n+100 {
			t.Errorf("the forge received %d questions in %v", asked, took)
		} else if asked < 100 {
			t.Errorf("%d questions: the case shows nothing", asked)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.most > atOnce+downloads {
			t.Errorf("the forge received %d requests at a time", f.most)
		}
		if size := len(p.ask(http.MethodGet, "/-/metrics").Body); size > 64<<10 {
			t.Errorf("%d bytes of metrics: there is one for each name?", size)
		}
		if files := p.stored(t, tried); files != nil {
			t.Errorf("%q have absent names", files)
		}
		if p.stored(t, "good1x") == nil {
			t.Error("the data directory has nothing about existing names: the case shows nothing")
		}
	})
}

// stored returns the files in the data directory that contain a text.
func (p *proxy) stored(t testing.TB, text string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(p.data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if bytes.Contains(data, []byte(text)) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return names
}
