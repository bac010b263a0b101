//go:build linux

package packages_test

import "testing"

// systemd finds no mistake in the units, and the exposure of the service is at most 2.0 of 10.
func TestUnit(t *testing.T) {
	r := newRoot(t)
	r.run("dpkg", "--install", r.copyIn(find(t, builtVariable, "*.deb"))[0])
	if out := r.run("systemd-analyze", "verify", "--man=no", "modproxy.service", "modproxy.socket"); out != "" {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	r.run("systemd-analyze", "security", "--no-pager", "--offline=yes", "--threshold=20", "modproxy.service")
}
