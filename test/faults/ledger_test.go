//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/ledger"
)

// named is the name of a package in the output of modproxy.
type named struct{ Module, Version, Platform string }

// path is the path of the package. Releases of providers, and their keys, have a path that clients never request.
func (n named) path() string {
	parts := strings.Split(n.Module, "/")
	if len(parts) == 3 {
		return zipPath(n.Version, n.Platform)
	}
	return packagePath(parts[2], n.Version)
}

// changes is the module whose versions change upstream once they are moved.
const changes = "up.example.com/acme/changes/aws"

// watched is h with a count of requests, and with the changes of moved versions.
func (r *proxy) watched(h http.Handler) http.Handler {
	provider, err := toys()
	if err != nil {
		r.t.Fatal(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.asked.Add(1)
		version := strings.TrimSuffix(path.Base(q.URL.Path), ".tar.gz")
		if _, moved := r.moved.Load(version); moved && strings.Contains(q.URL.Path, "/archives/v1/modules/acme/changes/") {
			w.Header().Set("Content-Type", "application/gzip")
			w.Write(archive("another " + version))
			return
		}
		if ofProviders(q) {
			provider.ServeHTTP(w, q)
			return
		}
		h.ServeHTTP(w, q)
	})
}

// loadDrift stores versions of one module, changes them upstream, removes their packages, and requests them, until end is called. A
// client that is told of a change knows that it was recorded.
func (r *proxy) loadDrift() (end func()) {
	var ending atomic.Bool
	done := make(chan struct{})
	until := func(f func() bool) {
		for !ending.Load() && !f() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	go func() {
		defer close(done)
		for i := 1; !ending.Load(); i++ {
			version := fmt.Sprintf("1.%d.0", i)
			path := packagePath("changes", version)
			until(func() bool { return r.ask("GET", path).Status == http.StatusOK })
			r.moved.Store(version, true)
			until(func() bool { return r.remove(changes, version) })
			until(func() bool {
				if !strings.Contains(r.ask("GET", path).Said(), "modproxy ledger drift") {
					return false
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				r.drifts[version] = true
				return true
			})
		}
	}()
	return func() { ending.Store(true); <-done }
}

// remove removes a package, as an operator does, and reports whether it was removed.
func (r *proxy) remove(module, version string) bool {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(r.data, "modproxy.sock"))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, Timeout: 20 * time.Second}
	body := fmt.Sprintf(`{"module": %q, "version": %q}`, module, version)
	resp, err := client.Post("http://localhost/-/api/packages/remove", "application/json", strings.NewReader(body))
	if err != nil {
		return false // modproxy is not serving
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// printed calls each for every item in the JSON output of a verb.
func (r *proxy) printed(each func(n named, sum string), args ...string) error {
	var text, complaint bytes.Buffer
	cmd := r.command(append(args, "--json")...)
	cmd.Stdout, cmd.Stderr = &text, &complaint
	err := cmd.Run()
	var list struct {
		Items []struct {
			named
			Sum string
		}
	}
	if bad := json.Unmarshal(text.Bytes(), &list); bad != nil {
		return fmt.Errorf("%v: %v: %w %s", args, bad, err, complaint.String())
	}
	for _, item := range list.Items {
		each(item.named, item.Sum)
	}
	if err != nil && !strings.Contains(complaint.String(), "offered with other content") { // the last line of "ledger drift" if it finds something
		return fmt.Errorf("%v: %w %s", args, err, complaint.String())
	}
	return nil
}

// checkLedger returns an error unless every package that a client received has a record, records are unchanged, and every reported
// change is in the ledger. The caller holds mu.
func (r *proxy) checkLedger() error {
	if len(r.acks) == 0 && len(r.pins) == 0 {
		l, err := ledger.OpenReadOnly(filepath.Join(r.data, "ledger"))
		if errors.Is(err, ledger.ErrNotCreated) {
			return nil // it was killed while it created the ledger; the next start continues
		} else if err == nil {
			l.Close()
		}
	}
	is := map[string]string{}
	err := r.printed(func(n named, sum string) { is[n.path()] = sum }, "ledger", "show")
	if err != nil {
		return err
	}
	for path, sum := range r.pins {
		if is[path] != sum {
			return fmt.Errorf("the ledger has %q of %s, and had %s", is[path], path, sum)
		}
	}
	for path := range r.acks {
		if is[path] == "" {
			return fmt.Errorf("the ledger has no record of %s", path)
		}
	}
	r.pins = is
	kept := map[string]bool{}
	err = r.printed(func(n named, _ string) { kept[n.Version] = n.Module == changes }, "ledger", "drift")
	if err != nil {
		return err
	}
	for version := range r.drifts {
		if !kept[version] {
			return fmt.Errorf("the ledger has nothing of the drift of %s %s", changes, version)
		}
	}
	return nil
}

// paths are the paths of all acknowledged packages.
func (r *proxy) paths() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.acks))
}

// afterwards checks the state after a case: without an upstream, all packages that clients received are served, recorded and intact, and
// no temporary file remains.
func (r *proxy) afterwards() {
	r.t.Helper()
	r.upstream.CloseClientConnections()
	r.upstream.Close()
	r.start()
	r.ready()
	for _, path := range r.paths() {
		if err := r.get(r.t.Context(), path); err != nil {
			r.t.Error(err)
		}
	}
	r.stop()
	if err := r.check(); err != nil {
		r.t.Error(err)
	}
	r.residue()
	if text, _ := os.ReadFile(r.path("log")); bytes.Contains(text, []byte("panic")) || bytes.Contains(text, []byte("fatal error")) {
		r.t.Error("modproxy panicked")
	}
}

// saidNothingWrong fails the test if a client received "not found", or an error without a reason.
func (r *proxy) saidNothingWrong() {
	r.t.Helper()
	counts := r.counts()
	if counts[http.StatusNotFound] > 0 || counts[http.StatusInternalServerError] > 0 {
		r.t.Errorf("answers by status: %v", counts)
	}
}
