package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// A soak is separated for any parent process, even the process with id 1, whose files cannot be read. Its mounts are private.
func TestApart(t *testing.T) {
	if os.Getenv("LOAD_TEST") != "" {
		err := apart(&settings{levels: []string{"L8"}, pin: true})
		mounts, _ := os.Readlink("/proc/self/ns/mnt")
		table, _ := os.ReadFile("/proc/self/mountinfo")
		t.Logf("error=%v mounts=%s told=%v", err, mounts, strings.Contains(string(table), " shared:"))
		return
	}
	if os.Geteuid() != 0 {
		rig.Missing(t, "only root can mount")
	}
	const orphan = `(while kill -0 $$ 2>/dev/null; do :; done; exec "$0" -test.run '^TestApart$' -test.v) &`
	cmd := exec.Command("/bin/sh", "-c", orphan, os.Args[0])
	cmd.Env = append(os.Environ(), "LOAD_TEST=1")
	out, err := cmd.CombinedOutput() // waits until the orphan has ended
	if strings.Contains(string(out), "error=a mount namespace: operation not permitted") {
		rig.Missing(t, "this process may not mount")
	}
	own, wrong := os.Readlink("/proc/self/ns/mnt")
	if err != nil || wrong != nil || !strings.Contains(string(out), "error=<nil> mounts=mnt:") || !strings.Contains(string(out), "told=false") ||
		strings.Contains(string(out), own) {
		t.Errorf("%v, %v, and mounts of its own in the place of %s:\n%s", err, wrong, own, out)
	}
}
