//go:build linux

package faults_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// newReadOnlyProxy returns a rig on a disk, with some packages.
func newReadOnlyProxy(t *testing.T) (*proxy, *disk) {
	t.Helper()
	d := newDisk(t, 64, "commit=1")
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	r.fill(20)
	return r, d
}

// fill lets clients send requests until n more packages are acknowledged.
func (r *proxy) fill(n int) {
	r.t.Helper()
	end := r.load(4)
	defer end()
	before := r.acked()
	for started := time.Now(); r.acked() < before+n; time.Sleep(5 * time.Millisecond) {
		if time.Since(started) > 3*time.Minute {
			r.t.Fatalf("%d of %d packages were acknowledged: %v", r.acked()-before, n, r.counts())
		}
	}
}

// cold is a package that was never requested.
var cold = packagePath("cold", "1.0.0")

// servesReadOnly checks that stored packages are served, and that modproxy reports that nothing else is stored, with one of the reasons.
func (r *proxy) servesReadOnly(reasons ...string) {
	r.t.Helper()
	for started := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		a := r.ask("GET", "/-/readyz")
		why := slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(string(a.Body), reason) })
		if a.Status == http.StatusServiceUnavailable && why {
			break
		}
		if time.Since(started) > 2*time.Minute {
			r.t.Fatalf("/-/readyz: %v %s", a, a.Body)
		}
		r.ask("GET", cold) // writing shows the state of the disk
	}
	if a := r.ask("GET", "/-/healthz"); a.Status != http.StatusOK {
		r.t.Errorf("/-/healthz: %v", a)
	}
	for _, path := range r.paths() {
		if err := r.get(r.t.Context(), path); err != nil {
			r.t.Error(err)
		}
	}
}

// The file system becomes read-only under modproxy, as after an error of the disk. Stored packages are served, and modproxy reports that
// nothing else is stored.
func TestDiskBecomesReadOnly(t *testing.T) {
	r, d := newReadOnlyProxy(t)
	end := r.load(4)
	d.run("mount", "-o", "remount,abort", d.mounted)
	r.servesReadOnly("read-only file system", "input/output error") // the latter during a flush
	end()
	r.kill()
	d.restore()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.afterwards()
	t.Logf("%d packages; answers by status: %v", r.acked(), r.counts())
}

// modproxy serves a data directory that is read-only from the start.
func TestDataIsReadOnly(t *testing.T) {
	r, d := newReadOnlyProxy(t)
	r.stop()
	d.run("mount", "-o", "remount,ro", d.mounted)
	asked := r.asked.Load()
	t.Setenv("MODPROXY_LOG_LEVEL", "warn")
	r.start()
	r.servesReadOnly("read-only file system")
	for _, path := range []string{cold, modulePath("cold") + "/1.0.0/download"} {
		if a := r.ask("GET", path); a.Status != http.StatusInsufficientStorage || !strings.Contains(a.Said(), "read-only file system") {
			t.Errorf("%s: %v", path, a)
		}
	}
	if now := r.asked.Load(); now != asked {
		t.Errorf("upstream was asked %d times", now-asked)
	}
	for _, name := range []string{"cold", "colder"} {
		if a := r.ask("GET", modulePath(name)+"/versions"); a.Status != http.StatusOK {
			t.Errorf("versions: %v", a)
		}
	}
	paths := r.paths()
	module := slices.IndexFunc(paths, func(path string) bool { return strings.Contains(path, "/v1/modules/") })
	kept := strings.Split(paths[module], "/") // it is downloaded, and not counted
	for path, want := range map[string]int{"/" + kept[7] + "/download": http.StatusNoContent, "/downloads/summary": http.StatusOK} {
		if a := r.ask("GET", modulePath(kept[5])+path); a.Status != want {
			t.Errorf("%v%s: %v", kept, path, a)
		}
	}
	if err := r.check(); err != nil { // beside the serving process, from the directory alone
		t.Error(err)
	}
	for _, args := range [][]string{
		{"rm", "up.example.com/acme/m1/aws", "--all", "--yes"}, {"rebuild"}, {"token", "create", "ci", "--scope", "*"}, {"ledger", "init"},
	} {
		out, err := r.command(args...).CombinedOutput()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "read-only file system") {
			t.Errorf("modproxy %v: %v %s", args, err, out)
		}
	}
	r.stop()
	r.start("--offline")
	r.ready()
	if a := r.ask("GET", "/-/readyz"); a.Status != 200 || !strings.Contains(string(a.Body), "nothing new is stored") { // new packages are not stored
		t.Errorf("offline: %v", a)
	}
	r.stop()
	log, err := os.ReadFile(r.path("log"))
	if err != nil || !strings.Contains(string(log), `"message":"data_read_only"`) || strings.Contains(string(log), "_failed") {
		t.Errorf("the log: %v\n%s", err, log)
	}
	if err := r.check(); err != nil {
		t.Error(err)
	}
	d.run("mount", "-o", "remount,rw", d.mounted)
	r.start()
	r.ready()
	r.fill(5)
	r.stop()
	r.afterwards()
}
