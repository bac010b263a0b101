//go:build linux

package packages_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// maxExposure is the highest accepted exposure of the unit, in tenths.
const maxExposure = 20

// systemd finds no mistake in the unit, and considers it hardened.
func TestUnit(t *testing.T) {
	r := newRoot(t)
	r.run("dpkg", "--install", r.copyIn(find(t, builtVariable, "*.deb"))[0])
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", "--recursive-errors=yes", "--root="+r.dir,
		"modproxy.service").CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--no-pager", "--root="+r.dir, "--offline=yes",
		"--threshold="+strconv.Itoa(maxExposure), "modproxy.service").CombinedOutput()
	score := regexp.MustCompile(`Overall exposure level for modproxy.service: ([0-9.]+)`).FindSubmatch(out)
	if err != nil || score == nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	t.Logf("exposure %s", score[1])
}
