//go:build linux

package packages_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// rpm runs the rpm of this machine on a root, in which the scripts of the packages run.
func (r *root) rpm(args ...string) (string, error) {
	out, err := exec.CommandContext(r.t.Context(), "rpm", append([]string{"--root", r.dir}, args...)...).CombinedOutput()
	return string(out), err
}

func (r *root) mustRPM(args ...string) string {
	r.t.Helper()
	out, err := r.rpm(args...)
	if err != nil {
		r.t.Fatalf("rpm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// The .rpm is installed, upgraded and removed like the .deb. The programs that it needs are in the root, but not in the
// root's database of rpm.
func TestRPM(t *testing.T) {
	r, u := newRoot(t), newRegistry(t)
	if out, err := r.rpm("--install", find(t, builtVariable, "*.rpm")); err == nil {
		t.Error("the .rpm needs no other package")
	} else {
		for _, need := range []string{"ca-certificates", "git >= 2.31", "/usr/sbin/useradd"} {
			if !strings.Contains(out, need+" is needed by modproxy") {
				t.Errorf("the .rpm does not need %s:\n%s", need, out)
			}
		}
	}
	r.mustRPM("--install", "--nodeps", find(t, previousVariable, "*.rpm"))
	r.checkVersion(previousVersion)
	r.configure(u)
	configured := r.read(configFile)
	p, url := r.serve()
	download(t, url+network)
	stop(t, p)

	r.mustRPM("--upgrade", "--nodeps", find(t, builtVariable, "*.rpm"))
	r.checkVersion(builtVersion)
	checkFiles(r)
	if got := r.read(configFile); got != configured {
		t.Errorf("the upgrade changed the configuration to:\n%s", got)
	}
	if out, _ := r.rpm("--verify", "--nodeps", "modproxy"); strings.TrimSpace(out) != "S.5....T.  c /"+configFile {
		t.Errorf("rpm --verify reports more than the changed configuration:\n%s", out)
	}
	u.Down()
	p, url = r.serve()
	if a := rig.Get(t.Context(), url+network); a.Status != 200 {
		t.Errorf("after the upgrade: %v", a)
	}
	stop(t, p)

	r.mustRPM("--erase", "modproxy")
	if r.has("usr/bin/modproxy") || r.has("usr/lib/systemd/system/modproxy.service") {
		t.Error("rpm --erase leaves the program or the unit")
	}
	if got, err := os.ReadFile(r.path(configFile + ".rpmsave")); err != nil || string(got) != configured {
		t.Errorf("rpm --erase does not save the configuration: %v", err)
	}
	if !r.has("var/lib/modproxy/ledger") {
		t.Error("rpm --erase removes the ledger")
	}
}
