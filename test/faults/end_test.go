//go:build linux

package faults_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// If a disk does not answer when modproxy ends, modproxy ends anyway, and reports it.
func TestEndsAlthoughTheDiskDoesNotAnswer(t *testing.T) {
	t.Setenv("MODPROXY_SHUTDOWN", "1s")
	d := newDisk(t, 64, "commit=1")
	r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
	r.start()
	r.ready()
	r.fill(3)
	freeze := func(how string) {
		t.Helper()
		if out, err := exec.Command("fsfreeze", how, d.mounted).CombinedOutput(); err != nil {
			t.Errorf("fsfreeze %s: %v\n%s", how, err, out)
		}
	}
	freeze("--freeze") // writes wait, and cannot be interrupted
	frozen := true
	thaw := func() {
		if frozen {
			frozen = false
			freeze("--unfreeze")
		}
	}
	t.Cleanup(thaw)
	r.ask("GET", r.some()) // its last use is recorded at the end
	if err := r.server.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	for !strings.Contains(string(r.server.Log()), "it did not end within 21s after a signal") {
		if time.Since(started) > 2*time.Minute {
			thaw()
			t.Fatalf("it said %s", r.server.Log())
		}
		time.Sleep(50 * time.Millisecond)
	}
	thaw()
	var exit *exec.ExitError
	if err := r.server.Wait(time.Minute); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	r.server = nil
}
