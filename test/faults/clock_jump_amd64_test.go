//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	day  = 24 * time.Hour
	year = 365 * day
)

// to1970 is the offset to the second day of 1970.
func to1970() time.Duration { return -time.Since(time.Unix(0, 0).Add(day)).Truncate(time.Second) }

// work does a fixed amount of work: the versions of 50 modules, ten acknowledged packages, and four others. It returns the number of
// requests to upstream.
func (r *proxy) work() int64 {
	r.t.Helper()
	before := r.asked.Load()
	paths := r.paths()
	paths = paths[:min(10, len(paths))]
	for range 4 {
		paths = append(paths, packagePath("cold", fmt.Sprintf("1.%d.0", r.next.Add(1))))
	}
	var group sync.WaitGroup
	for client := range 4 {
		group.Go(func() {
			for i := client; i < 50; i += 4 {
				path := modulePath(fmt.Sprintf("m%d", i)) + "/versions"
				if a := r.ask("GET", path); a.Status != http.StatusOK {
					r.t.Errorf("%s: %v", path, a)
				}
			}
			for i := client; i < len(paths); i += 4 {
				if err := r.get(r.t.Context(), paths[i]); err != nil {
					r.t.Error(err)
				}
			}
		})
	}
	group.Wait()
	return r.asked.Load() - before
}

// Jumps of the wall clock cause no requests to upstream and no errors.
func TestClockJumps(t *testing.T) {
	r := newProxy(t, with{})
	c := newClock(r)
	r.start()
	r.ready()
	first := r.work()
	normal := r.work()
	if normal < 8 || first < normal+50 {
		t.Fatalf("upstream is asked %d times at first, and %d times later: the work is none", first, normal)
	}
	jumps := []time.Duration{year, -day, to1970(), 0}
	for range 20 {
		jumps = append(jumps, time.Duration(rand.Int64N(int64(20*year))-int64(10*year)).Truncate(time.Second))
	}
	var most int64
	for _, jump := range jumps {
		c.set(jump)
		if is := r.clock(); is.Sub(time.Now().Add(jump)).Abs() > time.Minute {
			t.Fatalf("it is %v for modproxy: the clock does not jump", is)
		}
		asked := r.work()
		if most = max(most, asked); asked > 2*normal {
			t.Errorf("after a jump to %v upstream was asked %d times, and else %d", jump, asked, normal)
		}
	}
	for _, jump := range []time.Duration{year, to1970()} { // each list is too old, or from the future
		r.stop()
		c.wall = jump
		r.start()
		r.ready()
		if asked := r.work(); asked > 2*normal+50 {
			t.Errorf("after a start at %v upstream was asked %d times, and else %d", jump, asked, normal)
		}
	}
	r.stop()
	r.starter = (*exec.Cmd).Start
	r.afterwards()
	t.Logf("%d jumps; upstream was asked %d times for the work, and %d times at most after a jump", len(jumps), normal, most)
}

// clock returns modproxy's time, from the header of an answer.
func (r *proxy) clock() time.Time {
	r.t.Helper()
	a := r.ask("GET", "/-/healthz")
	is, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		r.t.Fatalf("%v: %v", a, err)
	}
	return is
}

// Jumps of the wall clock never prolong a token or a signed path.
func TestClockJumpsAndTokens(t *testing.T) {
	t.Setenv("MODPROXY_AUTH_REQUIRED", "true")
	t.Setenv("MODPROXY_AUTH_SIGNED_PATHS", "1m")
	r := newProxy(t, with{})
	c := newClock(r)
	r.start()
	r.ready()
	brief, long := r.token("brief", "5m"), r.token("long", "720h")
	download := modulePath("m1") + "/1.0.0/download"
	want := func(when, token, path string, want int) string {
		t.Helper()
		var header []string
		if token != "" {
			header = []string{"Authorization", "Bearer " + token}
		}
		a := r.ask("GET", path, header...)
		if a.Status != want {
			t.Errorf("%s: %v, want %d", when, a, want)
		}
		where, _, _ := strings.Cut(strings.TrimPrefix(a.Header.Get("X-Terraform-Get"), r.url), "?")
		return where
	}
	path := want("at first", long, download, http.StatusNoContent)
	want("signed at first", "", path, http.StatusOK)
	want("brief at first", brief, download, http.StatusNoContent)

	c.set(year)
	want("a year later", long, download, http.StatusUnauthorized)
	c.set(10 * day)
	ahead := want("ten days later", long, download, http.StatusNoContent)
	want("signed ten days later", "", ahead, http.StatusOK)
	for _, back := range []time.Duration{-day, to1970()} {
		c.set(back)
		want("back", brief, download, http.StatusNoContent)
		want("signed at first, and back", "", path, http.StatusOK)
		want("signed ahead, and back", "", ahead, http.StatusOK)
	}
	c.pass(3 * time.Minute) // a path lives at most two minutes, and the skew is one
	want("signed at first, after its life", "", path, http.StatusUnauthorized)
	want("signed ahead, after its life", "", ahead, http.StatusUnauthorized)
	want("brief, in its life", brief, download, http.StatusNoContent)
	c.pass(3 * time.Minute)
	want("brief, after its life", brief, download, http.StatusUnauthorized)
	for range rounds(5, 50) {
		c.set(time.Duration(rand.Int64N(int64(40*year))-int64(40*year)) + -year)
		want("brief, after its life", brief, download, http.StatusUnauthorized)
		want("signed, after its life", "", path, http.StatusUnauthorized)
	}
	c.set(0)
	want("long, in its life", long, download, http.StatusNoContent)
	r.stop()
	if log, _ := os.ReadFile(r.path("log")); bytes.Contains(log, []byte("panic")) {
		t.Error("modproxy panicked")
	}
}

// token creates a token.
func (r *proxy) token(name, expires string) string {
	r.t.Helper()
	out, err := r.command("token", "create", name, "--scope", "*", "--expires", expires).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
