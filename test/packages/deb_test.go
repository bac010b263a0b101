//go:build linux

package packages_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// A new installation serves with the configuration of the package. It needs no step of the operator but the registry.
func TestDebServes(t *testing.T) {
	r := newRoot(t)
	r.run("dpkg", "--install", r.copyIn(find(t, builtVariable, "*.deb"))[0])
	r.checkVersion(builtVersion)
	p, url := r.serve()
	if url != "http://127.0.0.1:8080" {
		t.Errorf("modproxy listens on %s; the documentation names 127.0.0.1:8080", url)
	}
	if a := rig.Get(t.Context(), url+"/-/healthz"); a.Status != 200 {
		t.Errorf("/-/healthz: %v", a)
	}
	stop(t, p)
	checkFiles(r)
}

// checkFiles checks the owners, modes and content of installed files.
func checkFiles(r *root) {
	r.t.Helper()
	for name, want := range map[string]string{
		"/usr/bin/modproxy": "root:root 755", "/etc/modproxy": "root:modproxy 750", "/" + configFile: "root:root 644",
		"/var/lib/modproxy": "modproxy:modproxy 700", "/var/log/modproxy": "root:modproxy 750",
		"/etc/logrotate.d/modproxy": "root:root 644", "/usr/lib/systemd/system/modproxy.service": "root:root 644",
		"/usr/lib/systemd/system/modproxy.socket": "root:root 644",
		"/usr/share/man/man1/modproxy.1.gz":       "root:root 644", "/usr/share/man/man1/modproxy-serve.1.gz": "root:root 644",
		"/usr/share/doc/modproxy/config.example.yaml": "root:root 644",
	} {
		if got := strings.TrimSpace(r.run("stat", "--format=%U:%G %a", name)); got != want {
			r.t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	for shell, name := range map[string]string{
		"bash": "usr/share/bash-completion/completions/modproxy", "fish": "usr/share/fish/vendor_completions.d/modproxy.fish",
	} {
		if got := r.run("modproxy", "completion", shell); got != r.read(name) {
			r.t.Errorf("%s is not what \"modproxy completion %s\" prints", name, shell)
		}
	}
	r.run("logrotate", "--debug", "/etc/logrotate.d/modproxy")
}

// An upgrade from the previous commit leaves data and configuration. Removal leaves both as well; purging removes the
// configuration, and leaves the state.
func TestDebUpgrade(t *testing.T) {
	r, u := newRoot(t), newRegistry(t)
	r.run("dpkg", "--install", r.copyIn(find(t, previousVariable, "*.deb"))[0])
	r.checkVersion(previousVersion)
	r.configure(u)
	configured := r.read(configFile)
	p, url := r.serve()
	download(t, url+network)
	stop(t, p)

	r.run("dpkg", "--install", r.copyIn(find(t, builtVariable, "*.deb"))[0])
	r.checkVersion(builtVersion)
	if got := r.read(configFile); got != configured {
		t.Errorf("the upgrade changed the configuration to:\n%s", got)
	}
	u.Down()
	p, url = r.serve()
	download(t, url+network)
	if got := r.run(asService("modproxy", "verify", "--read-data", "--config", "/"+configFile)...); !strings.Contains(got, "damage: 0") {
		t.Errorf("modproxy verify: %s", got)
	}
	stop(t, p)

	if err := os.WriteFile(r.path("var/log/modproxy/modproxy.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.run("dpkg", "--remove", "modproxy")
	if r.has("usr/bin/modproxy") || r.has("usr/lib/systemd/system/modproxy.service") {
		t.Error("dpkg --remove leaves the program or the unit")
	}
	if !r.has(configFile) || !r.has("var/lib/modproxy/ledger") {
		t.Error("dpkg --remove removes the configuration or the ledger")
	}
	r.run("dpkg", "--purge", "modproxy")
	if r.has("etc/modproxy") || r.has("etc/logrotate.d/modproxy") || r.has("var/log/modproxy") {
		t.Error("dpkg --purge leaves the configuration or the log files")
	}
	if owner := strings.TrimSpace(r.run("stat", "--format=%U", "/var/lib/modproxy/ledger")); owner != "modproxy" {
		t.Errorf("after dpkg --purge, %s owns the ledger", owner)
	}

	r.run("dpkg", "--install", filepath.Join("/root", filepath.Base(find(t, builtVariable, "*.deb"))))
	if err := appendTo(r.path(configFile), configuration(u)); err != nil {
		t.Fatal(err)
	}
	p, url = r.serve()
	download(t, url+network)
	stop(t, p)
}

// find returns the path of a package in the directory of a variable. Without a directory, the test cannot run.
func find(t *testing.T, variable, pattern string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		rig.Missing(t, "the checkout does not have the previous commit: no upgrade was tried")
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s has %v for %s: %v", dir, found, pattern, err)
	}
	return found[0]
}
