//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const listed = `{"modules": [{"versions": [{"version": "1.0.0"}, {"version": "1.1.0"}]}]}`

// vanishings are answers of a registry for a module that had 1.0.0 and 1.1.0. gone are versions that it no longer has; new is an added
// version.
var vanishings = []struct {
	name      string
	status    int
	list      string
	gone, new []string
}{
	{"deletes", 200, `{"modules": [{"versions": [{"version": "1.1.0"}]}]}`, []string{"1.0.0"}, nil},
	{"shrinks", 200, `{"modules": [{"versions": [{"version": "1.2.0"}]}]}`, []string{"1.0.0", "1.1.0"}, []string{"1.2.0"}},
	{"empties", 200, `{"modules": [{"versions": []}]}`, []string{"1.0.0", "1.1.0"}, nil},
	{"forgets", 404, `{"errors": ["Not Found"]}`, []string{"1.0.0", "1.1.0"}, nil},
	{"shows", 200, `<html>log in first</html>`, nil, nil},
	{"cuts", 200, `{"modules": [{"versions": [{"ver`, nil, nil},
	{"exaggerates", 200, `{"modules": [{"versions": [{"version": "1.1.0"}, {"version": "9223372036854775808"},
		{"version": "9223372036854775808.0.0-rc.1+x/y"}, {"version": "../../x"}, {"version": "1.0.0/../../2.0.0"}, {"version": "1.3.0\n"},
		{"version": ""}, {"version": 7}, {"version": null}, {"version": "` + strings.Repeat("9", 5000) + `.0.0"}, {"version": "1.2.0"}]}]}`,
		[]string{"1.0.0"}, []string{"1.2.0"}},
}

// absurd are texts that no answer may contain.
var absurd = []string{"9223372036854775808", "../", "1.3.0", "99999", "null", "7,"}

// A version that was listed once and is stored stays listed and is served, for any later answer of the registry, and offline. modproxy
// reports the answer.
func TestVersionsThatVanish(t *testing.T) {
	t.Setenv("MODPROXY_CACHE_FRESH", "1ms")
	t.Setenv("MODPROXY_LOG_LEVEL", "warn")
	var turned atomic.Bool
	var asked [10]atomic.Int64 // requests for the list since the last turn
	up := &sized{bytes: 1000}
	r := newProxy(t, with{registry: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i, v := range vanishings {
			if !strings.Contains(r.URL.Path, "/"+v.name+"/") {
				continue
			}
			isList, on := strings.HasSuffix(r.URL.Path, "/versions"), turned.Load()
			switch {
			case isList && on:
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(v.status)
				io.WriteString(w, v.list)
				asked[i].Add(1)
				return
			case isList:
				io.WriteString(w, listed)
				return
			case on:
				http.NotFound(w, r)
				return
			}
		}
		up.ServeHTTP(w, r)
	})})
	r.start()
	r.ready()
	kept := map[string][]byte{}
	for _, v := range vanishings {
		if a := r.ask("GET", modulePath(v.name)+"/versions"); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		for _, version := range []string{"1.0.0", "1.1.0"} {
			a := r.ask("GET", packagePath(v.name, version))
			if a.Status != http.StatusOK || a.Err != nil {
				t.Fatal(a)
			}
			kept[packagePath(v.name, version)] = a.Body
		}
	}
	turned.Store(true)
	stays := func(when string) {
		t.Helper()
		for _, v := range vanishings {
			list := r.ask("GET", modulePath(v.name)+"/versions")
			for _, version := range append([]string{"1.0.0", "1.1.0"}, v.new...) {
				times := 1
				if when == "offline" && slices.Contains(v.new, version) {
					times = 0 // its package is not stored
				}
				if n := bytes.Count(list.Body, fmt.Appendf(nil, "%q", version)); list.Status != http.StatusOK || n != times {
					t.Errorf("%s, who %s: %s is listed %d times, want %d: %v %s", when, v.name, version, n, times, list, list.Body)
				}
			}
			for _, part := range absurd {
				if bytes.Contains(list.Body, []byte(part)) {
					t.Errorf("%s, who %s: %q is in %s", when, v.name, part, list.Body)
				}
			}
			for _, version := range []string{"1.0.0", "1.1.0"} {
				path := packagePath(v.name, version)
				if a := r.ask("GET", modulePath(v.name)+"/"+version+"/download"); a.Status != http.StatusNoContent {
					t.Errorf("%s, who %s: download of %s: %v", when, v.name, version, a)
				}
				if a := r.ask("GET", path); a.Status != http.StatusOK || !bytes.Equal(a.Body, kept[path]) {
					t.Errorf("%s, who %s: %s: %v", when, v.name, path, a)
				}
			}
		}
	}
	for i, v := range vanishings { // requests in the background
		seen := func() bool {
			text := r.ask("GET", modulePath(v.name)+"/versions").Body
			for _, version := range v.new {
				if !bytes.Contains(text, []byte(version)) {
					return false
				}
			}
			return asked[i].Load() > 0
		}
		for started := time.Now(); !seen() && time.Since(started) < 2*time.Minute; {
			time.Sleep(20 * time.Millisecond)
		}
	}
	stays("afterwards")
	r.stop()
	r.start()
	r.ready()
	stays("after a restart")
	r.stop()
	r.start("--offline")
	r.ready()
	stays("offline")
	r.stop()
	log, err := os.ReadFile(r.path("log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vanishings {
		for _, version := range []string{"1.0.0", "1.1.0"} {
			told := bytes.Count(log, fmt.Appendf(nil, `"message":"version_dropped","module":"up.example.com/acme/%s/aws","version":"%s"`, v.name, version))
			if want := strings.Count(strings.Join(v.gone, " "), version); told != want {
				t.Errorf("who %s: that %s is gone was told %d times, want %d", v.name, version, told, want)
			}
		}
	}
	if bytes.Contains(log, []byte("panic")) {
		t.Errorf("%s", log)
	}
}
