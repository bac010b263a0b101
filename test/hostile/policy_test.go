//go:build linux

package hostile_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The first rules of a program with rules, and later denials.
const (
	gateOpen = `rules:
  - allow: up-a.test/*/*/*
  - allow: up-b.test/*/*/*
`
	gateClosed = gateOpen + `  - {deny: UP-B.test:443/gate/Den*/aws, reason: it is gone}
  - {deny: up-b.test/*a*e/*old*/*, reason: it is gone}
  - {deny: up-b.test/gate/mixed/aws, versions: "v1.2", reason: it is gone}
  - {deny: bücher.evil.test/*/*/*, reason: it is gone}
`
	gone = "denied by the policy of this proxy: it is gone ("
)

var (
	gateDenied = module{"up-b.test", "gate", "denied", "aws"}
	gateMixed  = module{"up-b.test", "gate", "mixed", "aws"} // without 1.2.0
	gateRace   = module{"up-b.test", "gate", "race", "aws"}
)

// startGated runs modproxy with a configuration and a file of rules.
func startGated(t *testing.T, config, rules string) *proxy {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	config = strings.Replace(config, "routes:\n", "routes:\n  - {namespace: gate, upstream: up-b.test}\n", 1)
	p := newProxy(t, dir, config+"policy: {default: deny, contact: the gatekeepers, files: ["+file+"]}\n")
	t.Cleanup(p.finish)
	return p
}

// rule replaces the rules and waits until path is answered with status.
func (p *proxy) rule(rules, path string, status int) {
	p.t.Helper()
	next := p.write("next.yaml", rules)
	if err := os.Rename(next, filepath.Join(p.dir, "rules.yaml")); err != nil {
		p.t.Fatal(err)
	}
	if !eventually(func() bool { return p.status(path) == status }) {
		p.t.Fatalf("%s is not answered with %d by the new rules", path, status)
	}
}

// gone checks that the rules deny a request in every form.
func (p *proxy) gone(t *testing.T, path string, headers ...string) {
	t.Helper()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, more := range [][]string{
			nil, {"Range", "bytes=0-3"}, {"If-None-Match", "*"}, {"If-Range", `"x"`, "Range", "bytes=-3"}, {"Accept-Encoding", "gzip"},
		} {
			a := p.ask(method, path, append(more, headers...)...)
			if a.Status != http.StatusForbidden || method == http.MethodGet && !strings.Contains(a.Said(), gone) {
				t.Errorf("%s %s with %q, %.60q: %d %s", method, path, more, headers, a.Status, a.Said())
			}
			if a.Header.Get("X-Terraform-Get") != "" || a.Header.Get("Etag") != "" {
				t.Errorf("%s %s: %v", method, path, a.Header)
			}
		}
	}
}

// unasked checks that a registry received no request for a denied version since it had since requests.
func unasked(t *testing.T, host string, since int) {
	t.Helper()
	for _, r := range world.good[host].Requests()[since:] {
		low := strings.ToLower(r.Path)
		if strings.Contains(low, "denied") || strings.Contains(low, "cold") || strings.Contains(low, "1.2.0") {
			t.Errorf("%s was asked: %s %s", host, r.Method, r.Path)
		}
	}
}

// Denied versions are denied under every name and path, also if they are stored and their path was signed. No registry is requested.
func TestPolicyHasOneVerdict(t *testing.T) {
	p := startGated(t, asking, gateOpen)
	p.mustInstall(gateDenied, "1.0.0")
	p.mustInstall(gateMixed, "1.2.0")
	p.mustInstall(gateMixed, "1.0.0")
	client := p.token("client", "--scope", "*")
	segment, signed := p.signed(t, client, gateMixed, "1.2.0")
	p.rule(gateClosed, gateDenied.path("versions"), http.StatusForbidden)
	asked, strangers := len(world.good["up-b.test"].Requests()), len(world.strangers.at(""))

	p.run("modules", func(t *testing.T) {
		for _, name := range []string{"denied", "cold"} {
			for spelling, host := range map[string]string{
				"/up-b.test/v1/modules/gate/NAME/aws/": "", "/UP-B.Test/v1/modules/gate/NAME/aws/": "",
				"/up-b.test:443/v1/modules/gate/NAME/aws/": "", "/up%2Db%2etest/v1/modules/gate/NAME/aws/": "",
				"/up-b.test/v1/modules/GATE/NAME/aws/": "", "/up-b.test/v1/modules/%67ate/NAME/%61ws/": "",
				"/v1/modules/gate/NAME/aws/":  "", // denied by its route
				"/v1/modules/gate/NAME/aws//": "up-b.test", "/v1/modules/Gate/NAME/aws///": "UP-B.test:443",
			} {
				path := strings.TrimRight(strings.Replace(spelling, "NAME", name, 1), "/") + "/"
				headers := []string{"Host", host}
				if host == "" {
					headers = nil
				}
				for _, rest := range []string{"versions", "download", "latest/download", "1.0.0/download", "v1/download", "9.9.9/download"} {
					p.gone(t, path+rest, headers...)
					p.gone(t, strings.Replace(path, name, strings.ToUpper(name[:1])+name[1:], 1)+rest, headers...)
				}
			}
		}
		p.gone(t, gateDenied.archive("1.0.0"))
		p.gone(t, "/up-b.test~/v1/modules/GATE/Denied/aws/1.0.0/Denied-aws-1.0.0.tar.gz")
		p.gone(t, "/up-b.test~/v1/modules/gate/denie%64/aws/1.0.0/denied-aws-1.0.0.tar.gz")
	})
	p.run("versions", func(t *testing.T) {
		for _, version := range []string{
			"1.2.0", "1.2", "v1.2", "v1.2.0", "01.2.0", "1.2.0.0", "1.2.0+b1", "1.2.0%2Bb1", "%31.2.0", "v01.02.00", "1.2.0-rc1", "1.2.0-0+b",
		} {
			p.gone(t, gateMixed.path(version+"/download"))
			p.gone(t, "/v1/modules/GATE/mixed/aws/"+version+"/download", "Host", "up-b.test")
		}
		for _, version := range []string{"1.2.0", "1.2.0+b1", "1.2.0-rc1"} {
			p.gone(t, gateMixed.archive(version))
			p.gone(t, strings.ReplaceAll(gateMixed.archive(version), "mixed", "Mixed"))
		}
		p.gone(t, signed, "Authorization", client)
		p.gone(t, "/"+segment+signed, "Authorization", "")
		p.gone(t, "/"+segment+signed+"?archive=false", "Authorization", "")
	})
	p.run("lists", func(t *testing.T) { listsWithout(t, p) })
	p.run("look-alikes", func(t *testing.T) {
		for _, path := range []string{
			"//up-b.test/v1/modules/gate/denied/aws/versions", "/up-b.test//v1/modules/gate/denied/aws/versions",
			"/up-b.test/v1/modules//gate/denied/aws/versions", "/up-b.test/v1/modules/gate//denied/aws/versions",
			"/up-b.test/v1/modules/gate/denied/aws//versions", "/up-b.test/v1/modules/gate/denied/aws/1.0.0//download",
			"/up-b.test./v1/modules/gate/denied/aws/versions", "/%ef%bd%95p-b.test/v1/modules/gate/denied/aws/versions",
			"/up-b.test/v1/modules/%ef%bd%87ate/denied/aws/versions", "/up-b.test/v1/modules/gate/%c4%91enied/aws/versions",
			"/up-b.test/v1/modules/gate/denied/%e2%84%aaws/versions", "/up-b.test/v1/modules/%2a/denied/aws/versions",
			"/up-b.test/v1/modules/*/*/*/versions", "/up-b.test/v1/modules/gat%3f/denied/aws/versions", "/*/v1/modules/gate/denied/aws/versions",
			"/up-b.test/v1/modules/gate%2fdenied/aws/versions", "/up-b.test/v1/modules/x/../gate/denied/aws/versions",
			"/up-b.test~/v1/modules/gate/denied/aws/1.0.0/../1.0.0/denied-aws-1.0.0.tar.gz", "/up-b.test%00/v1/modules/gate/denied/aws/versions",
			"/b%c3%bccher.evil.test/v1/modules/gate/other/aws/versions", "/xn--bcher-kva.evil.test/v1/modules/gate/other/aws/versions",
			"/B%c3%9ccher.Evil.test:443/v1/modules/gate/other/aws/1.0.0/download", "/bu%cc%88cher.evil.test/v1/modules/gate/other/aws/versions",
			"/other.evil.test/v1/modules/gate/denied/aws/versions",
		} {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if a := p.ask(method, path); a.Status < 400 || a.Status == http.StatusNotFound && strings.Contains(a.Said(), "1.0.0") {
					t.Errorf("%s %s: %d %s", method, path, a.Status, a.Said())
				}
			}
		}
	})
	p.run("ledger", func(t *testing.T) {
		name, _, _ := strings.Cut(string(p.ask(http.MethodGet, "/-/sumdb/key").Body), "+")
		for _, m := range []string{"cold", "denied", "!denied"} {
			path := "/-/sumdb/" + name + "/lookup/up-b.test/gate/" + m + "/aws@v1.0.0"
			if a := p.ask(http.MethodGet, path); a.Status != http.StatusForbidden || !strings.Contains(a.Said(), gone) {
				t.Errorf("%s: %d %s", path, a.Status, a.Said())
			}
		}
		if out := p.operate("refresh", "--all"); strings.Contains(out, "denied") {
			t.Errorf("refreshed: %s", out)
		}
	})
	unasked(t, "up-b.test", asked)
	unasked(t, "up-a.test", 0)
	for _, s := range world.strangers.at("")[strangers:] {
		t.Errorf("a stranger was asked: %v", s)
	}
}

// listsWithout checks that 1.2.0 is in no list of gateMixed, and that "latest" does not return it.
func listsWithout(t *testing.T, p *proxy) {
	var tags []string
	for _, path := range []string{gateMixed.path("versions"), "/UP-B.test:443/v1/modules/g%61te/mixed/aws/versions", "/v1/modules/gate/mixed/aws/versions"} {
		for _, coding := range []string{"identity", "gzip", "br, gzip;q=0.5", ""} {
			a := p.ask(http.MethodGet, path, "Accept-Encoding", coding)
			body := a.Body
			if a.Header.Get("Content-Encoding") == "gzip" {
				z, err := gzip.NewReader(bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if body, err = io.ReadAll(z); err != nil {
					t.Fatal(err)
				}
			}
			if a.Status != http.StatusOK || !bytes.Contains(body, []byte(`"1.0.0"`)) || bytes.Contains(body, []byte("1.2.0")) {
				t.Errorf("%s, %q: %d %.300s", path, coding, a.Status, body)
			}
			tags = append(tags, a.Header.Get("Etag"))
		}
		if again := p.ask(http.MethodGet, path, "If-None-Match", tags[0]); again.Status != http.StatusNotModified {
			t.Errorf("%s, if it has changed: %d", path, again.Status)
		}
	}
	for _, rest := range []string{"download", "latest/download"} {
		a := p.ask(http.MethodGet, gateMixed.path(rest))
		if to := a.Header.Get("X-Terraform-Get"); a.Status != http.StatusNoContent || !strings.Contains(to, "mixed-aws-1.0.0.tar.gz") {
			t.Errorf("%s: %d %q", rest, a.Status, to)
		}
	}
}

// Audit mode denies nothing, and counts what it would deny.
func TestPolicyAudits(t *testing.T) {
	p := startGated(t, ordinary, gateOpen)
	p.rule(gateClosed, gateDenied.path("versions"), http.StatusForbidden)
	p.write("modproxy.yaml", strings.Replace(string(p.config()), "policy: {", "policy: {mode: audit, ", 1))
	if !eventually(func() bool { return p.status(gateDenied.path("versions")) == http.StatusOK }) {
		t.Fatal("in audit mode a denied module is refused")
	}
	p.mustInstall(gateDenied, "1.0.0")
	p.mustInstall(gateMixed, "1.2.0")
	if !bytes.Contains(p.ask(http.MethodGet, "/-/metrics").Body, []byte(`mode="audit"`)) {
		t.Error("nothing is counted")
	}
}

// After a block, no request receives the version, during downloads, for stored packages, and in lists.
func TestBlocksCountAtOnce(t *testing.T) {
	p := startGated(t, ordinary, gateOpen)
	p.mustInstall(gateDenied, "1.0.0")
	rounds := 12
	if shorter(t, "4 blocks instead of 12") {
		rounds = 4
	}
	p.run("kept", func(t *testing.T) {
		for range rounds {
			raceBlock(t, p, gateDenied, "1.0.0", []string{gateDenied.archive("1.0.0"), gateDenied.path("1.0.0/download"), gateDenied.path("versions")})
		}
	})
	p.run("fetched", func(t *testing.T) {
		for i := range 4 {
			version := fmt.Sprintf("1.0.%d", i)
			raceBlock(t, p, gateRace, version, []string{gateRace.archive(version), gateRace.path(version + "/download")})
		}
	})
}

// raceBlock blocks a version while paths are requested, and ends the block.
func raceBlock(t *testing.T, p *proxy, m module, version string, paths []string) {
	t.Helper()
	var mu sync.Mutex
	var blocked, ending time.Time // no request may succeed between these
	var group sync.WaitGroup
	over := make(chan struct{})
	for _, path := range paths {
		for range 2 {
			group.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					began := time.Now()
					a, _ := p.try(t.Context(), http.MethodGet, path) // an answer in progress is cut off
					mu.Lock()
					if !blocked.IsZero() && began.After(blocked) && ending.IsZero() && a.Status != http.StatusForbidden {
						t.Errorf("%s, %v after the block: %d", path, began.Sub(blocked), a.Status)
					}
					mu.Unlock()
				}
			})
		}
	}
	p.operate("block", m.address(), version, "--reason", "a race")
	set := func(at *time.Time) {
		mu.Lock()
		defer mu.Unlock()
		*at = time.Now()
	}
	set(&blocked)
	time.Sleep(150 * time.Millisecond) // so that some requests are sent
	set(&ending)
	p.operate("unblock", m.address(), version)
	close(over)
	group.Wait()
}
