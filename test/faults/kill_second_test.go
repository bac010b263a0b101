//go:build linux

package faults_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// refuses checks that "modproxy serve" ends with a message that contains why.
func (r *proxy) refuses(why string) {
	r.t.Helper()
	started := time.Now()
	out, err := r.command("serve", "--listen", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(out), why) {
		r.t.Errorf("modproxy serve: %v\n%swant %q", err, out, why)
	}
	if took := time.Since(started); rig.Late(took, 5*time.Second) {
		r.t.Errorf("it took %v until it ended", took)
	}
}

// Only one modproxy works in a data directory at a time. A killed one does not count. A version too old for the directory does not
// change it.
func TestSecondProcess(t *testing.T) {
	r := newProxy(t, with{})
	r.start()
	r.ready()
	r.fill(5)
	r.refuses("another modproxy has the data directory: process ")
	r.kill()
	r.start()
	r.ready()
	r.stop()
	layout := filepath.Join(r.data, "layout.json")
	is, err := os.ReadFile(layout)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout, []byte(strings.Replace(string(is), `"layout":1`, `"layout":2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.refuses("layout 2, and this modproxy knows layouts up to 1")
	if err := os.WriteFile(layout, is, 0o600); err != nil {
		t.Fatal(err)
	}
	r.afterwards()
}
