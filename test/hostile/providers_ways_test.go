//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// An endless document costs bounded time and memory.
func TestEndlessDocumentsOfProviders(t *testing.T) {
	p := startOwn(t, providing)
	u := published(t, map[string]string{"1.0.0": ""})
	for end, beginning := range map[string]string{
		ofVersions:  `{"versions":[{"version":"1.0.0"}`,
		ofDownload:  `{"signing_keys":{"gpg_public_keys":[{}`,
		ofSums:      "",
		ofSignature: "",
		ofZip:       "PK\x03\x04",
	} {
		p.run(strings.Trim(end, "/_."), func(t *testing.T) {
			host := stranger(t, but(u, end, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				endless(w, beginning, `,{}`)
			}))
			if end == ofVersions {
				a := p.ask(http.MethodGet, toyPath(host, "versions"))
				if a.Status < 400 || a.Status == http.StatusNotFound || rig.Late(a.Took, soonEnough) {
					t.Error(a)
				}
				return
			}
			p.refuseProvider(t, host, "1.0.0", `larger|more than`)
		})
	}
	p.run("memory", func(t *testing.T) {
		if mib := p.resident() >> 10; mib > 200 && memoryIsBounded() {
			t.Errorf("modproxy took %d MiB of memory; want at most 200", mib)
		}
	})
}

// A provider's files may be at other addresses, but not at forbidden ones.
func TestRedirectsOfProviders(t *testing.T) {
	p := start(t, ordinary)
	u := published(t, map[string]string{"1.0.0": ""})
	ends := []string{ofDownload, ofSums, ofSignature, ofZip}
	hops := maps.Clone(badHops)
	if shorter(t, "redirects to the metadata server and to a name of it only") {
		hops = map[string]string{"metadata": badHops["metadata"], "name": badHops["name"], "plain": badHops["plain"]}
	}
	for name, target := range hops {
		for _, end := range ends {
			p.run(name+"-"+strings.Trim(end, "/_."), func(t *testing.T) {
				second := stranger(t, http.RedirectHandler(target, http.StatusFound))
				host := stranger(t, but(u, end, func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "https://"+second+"/x.zip", http.StatusFound)
				}))
				p.refuseProvider(t, host, "1.0.0", `not allowed|not the answer`)
			})
		}
		p.run(name+"-said", func(t *testing.T) {
			host := stranger(t, but(u, ofDownload, func(w http.ResponseWriter, r *http.Request) {
				answer := &buffered{header: http.Header{}}
				u.ServeHTTP(answer, r)
				var said map[string]any
				if err := json.Unmarshal(answer.Bytes(), &said); err != nil {
					t.Error(err)
				}
				said["download_url"] = target
				json.NewEncoder(w).Encode(said)
			}))
			p.refuseProvider(t, host, "1.0.0", `not allowed|not the answer|invalid`)
		})
	}
}

// buffered is an answer that can be changed.
type buffered struct {
	bytes.Buffer
	header http.Header
}

func (b *buffered) Header() http.Header { return b.header }
func (b *buffered) WriteHeader(int)     {}

// Only the registry itself receives its token, and no server receives tokens of clients.
func TestTokensOfProviderRegistries(t *testing.T) {
	const registry, elsewhere = "token.evil.test", "release.evil.test"
	p := startOwn(t, strings.Replace(providing, "upstreams:\n", "upstreams:\n  - {host: "+registry+", token_file: TOKEN}\n", 1))
	u := published(t, map[string]string{"1.0.0": ""})
	strangerAt(t, elsewhere, u)
	away := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+elsewhere+r.URL.Path, http.StatusFound)
	}
	strangerAt(t, registry, but(but(but(u, ofSums, away), ofSignature, away), ofZip, away))
	a := p.ask(http.MethodGet, toyPath(registry, "1.0.0"+ofDownload), "Authorization", "Bearer "+secretClient)
	if a.Status != http.StatusOK {
		t.Fatal(a)
	}
	if a := p.installProvider(registry, "1.0.0"); a.Status != http.StatusOK || a.Err != nil {
		t.Fatal(a)
	}
	shown := 0
	for _, host := range []string{registry, elsewhere} {
		for _, r := range world.strangers.at(host) {
			header := r.Header.Get("Authorization")
			switch {
			case header == "Bearer "+secretToken && host == registry:
				shown++
			case header != "":
				t.Errorf("%s was shown %q: %v", host, header, r)
			}
		}
	}
	if n := len(world.strangers.at(elsewhere)); shown == 0 || n != 3 {
		t.Errorf("the registry was shown its token %d times, and the host of its files asked %d times", shown, n)
	}
}

// A slow registry is given up in time, also for waiting clients.
func TestSlowProviders(t *testing.T) {
	p := startOwn(t, strings.Replace(providing, "timeout: 3m", "timeout: "+brief(t, 3*time.Second).String(), 1), hedging)
	u := published(t, map[string]string{"1.0.0": ""})
	for _, end := range []string{ofVersions, ofDownload, ofSums, ofSignature} {
		for name, serve := range map[string]http.HandlerFunc{"drips": slow(t, true), "hangs": slow(t, false)} {
			if end != ofSums && shorter(t, "checksums only") {
				continue
			}
			p.run(name+"-"+strings.Trim(end, "/_."), func(t *testing.T) {
				host := stranger(t, but(u, end, serve))
				rest := "1.0.0" + ofDownload
				if end == ofVersions {
					rest = "versions"
				}
				if a := p.ask(http.MethodGet, toyPath(host, rest)); rig.Late(a.Took, soonEnough) || a.Status < 400 || a.Status == http.StatusNotFound {
					t.Error(a)
				}
			})
		}
	}
	p.run("drips-zip", func(t *testing.T) {
		host := stranger(t, but(u, ofZip, slow(t, true)))
		a := p.installProvider(host, "1.0.0")
		if a.Status == http.StatusOK && a.Err == nil || rig.Late(a.Took, soonEnough) {
			t.Errorf("%v; want it given up", a)
		}
	})
}

// A large package uses disk and not memory, while it is downloaded and served to many clients.
func TestLargeProvider(t *testing.T) {
	size, clients := 1000, 16
	if shorter(t, "a package of 100 MiB instead of 1000, and with the race detector, which leaves no bound of memory, of 16") {
		size = 16
		if memoryIsBounded() {
			size = 100
		}
	}
	p := startOwn(t, ordinary)
	u := published(t, map[string]string{"1.0.0": fmt.Sprintf("size=%d\nplatforms=linux_amd64", size)})
	host := stranger(t, u)
	p.ask(http.MethodGet, toyPath(host, "1.0.0"+ofDownload))
	errs := make(chan error)
	p.count(clients)
	for range clients {
		go func() {
			r, err := plain.Get(p.url + toyZip(host, "1.0.0", "linux_amd64"))
			if err == nil {
				defer r.Body.Close()
				var n int64
				if n, err = io.Copy(io.Discard, r.Body); err == nil && (n != r.ContentLength || n < int64(size)<<20) {
					err = fmt.Errorf("%s, %d bytes of %d", r.Status, n, r.ContentLength)
				}
			}
			errs <- err
		}()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	mib := p.resident() >> 10
	t.Logf("modproxy took %d MiB of memory for a package of %d", mib, size)
	if mib > 128 && memoryIsBounded() {
		t.Errorf("modproxy took %d MiB of memory; want at most 128", mib)
	}
	if n := u.Count(registrytest.Zip); n != 1 {
		t.Errorf("upstream was asked for it %d times", n)
	}
}

// questionsAboutProviders are the paths of all requests about a version, of a registry and of a mirror.
func questionsAboutProviders(host string) []string {
	mirror := "/-/mirror/" + host + "/case/toy/"
	return []string{
		toyPath(host, "versions"), toyPath(host, "1.0.0"+ofDownload), toyPath(host, "1.0.0/SHA256SUMS"), toyPath(host, "1.0.0/SHA256SUMS.sig"),
		toyZip(host, "1.0.0", "linux_amd64"), mirror + "index.json", mirror + "1.0.0.json",
	}
}

// A client that may not read modules of a registry may not read its providers, and learns nothing about them.
func TestProvidersAreForWhoMayReadThem(t *testing.T) {
	p := startOwn(t, asking)
	u := published(t, map[string]string{"1.0.0": ""})
	host := stranger(t, u)
	others := p.token("others", "--scope", "up-a.test/*")
	all := p.token("all", "--scope", host+"/case")
	for _, when := range []string{"cold", "kept"} {
		for _, path := range questionsAboutProviders(host) {
			for credential, want := range map[string]int{"": http.StatusUnauthorized, others: http.StatusConflict} {
				if a := p.ask(http.MethodGet, path, "Authorization", credential); a.Status != want {
					t.Errorf("%s, %s: %v; want %d", when, path, a, want)
				}
			}
		}
		if n := u.Count(registrytest.All); when == "cold" && n > 0 {
			t.Errorf("upstream was asked %d times for those who may not read it", n)
		}
		for _, path := range questionsAboutProviders(host) {
			if a := p.ask(http.MethodGet, path, "Authorization", all); a.Status != http.StatusOK {
				t.Errorf("%s, %s: %v", when, path, a)
			}
		}
	}
}

// A denied provider is not served at any path, although it is stored.
func TestPolicyHoldsForProviders(t *testing.T) {
	const others, open, closed = "rules:\n  - allow: up-a.test/*/*/*\n", "  - allow: \"*/case/toy\"\n", "  - {deny: \"*/case/toy\", reason: it is gone}\n"
	p := startGated(t, ordinary, others+open)
	host := stranger(t, published(t, map[string]string{"1.0.0": ""}))
	if a := p.installProvider(host, "1.0.0"); a.Status != http.StatusOK || a.Err != nil {
		t.Fatal(a)
	}
	p.rule(others+closed, toyZip(host, "1.0.0", "linux_amd64"), http.StatusConflict)
	for _, path := range questionsAboutProviders(host) {
		a, _ := p.try(context.Background(), http.MethodGet, path)
		if a.Status != http.StatusConflict && a.Status != http.StatusNotFound && !strings.Contains(string(a.Body), `"warnings":["`) {
			t.Errorf("%s: %v %.300s", path, a, a.Body)
		}
	}
}
