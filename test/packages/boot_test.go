//go:build linux

package packages_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/modproxy/modproxy/test/rig"
)

// A machine is a root with a running systemd, in the network of the test.
type machine struct {
	*root
	nspawn *rig.Process
	init   int // process id of its systemd
}

// boot starts systemd in the root, and waits until it has started all services.
func (r *root) boot() *machine {
	r.t.Helper()
	if err := unix.Unmount(r.path("proc"), 0); err != nil { // systemd-nspawn mounts its own
		r.t.Fatal(err)
	}
	cmd := exec.Command("systemd-nspawn", "--directory="+r.dir, "--boot", "--register=no", "--keep-unit", "--machine=packages",
		"--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe")
	p, err := rig.Start(cmd, filepath.Join(r.t.TempDir(), "nspawn.log"))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(p.Kill)
	m := &machine{root: r, nspawn: p}
	err = p.Until(r.t.Context(), func() bool {
		children := rig.Children(p.ID())
		if len(children) != 1 {
			return false
		}
		m.init = children[0] // at first a process that starts systemd and ends
		// The state is "degraded" if any service has failed, such as one that needs hardware.
		state, _ := m.command("systemctl", "is-system-running").Output()
		return string(state) == "running\n" || string(state) == "degraded\n"
	})
	if err != nil {
		rig.Missing(r.t, "NOT RUN: systemd-nspawn does not boot a system here: %v", err)
	}
	return m
}

// command returns a command that runs in the machine, as its user root.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := m.root.command()
	nsenter := []string{"--target", strconv.Itoa(m.init), "--mount", "--uts", "--ipc", "--pid", "--root", "--wd", "--"}
	enter := exec.CommandContext(m.t.Context(), "nsenter", append(nsenter, args...)...)
	enter.Env = cmd.Env
	return enter
}

// run runs a command in the machine and returns its output.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	out, err := m.command(args...).CombinedOutput()
	if err != nil {
		journal, _ := m.command("journalctl", "--no-pager", "--lines=50", "--unit=modproxy").CombinedOutput()
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(args, " "), err, out, journal)
	}
	return string(out)
}

// until waits until a condition holds in the machine.
func (m *machine) until(what string, ready func() bool) {
	m.t.Helper()
	if err := m.nspawn.Until(m.t.Context(), ready); err != nil {
		journal, _ := m.command("journalctl", "--no-pager", "--lines=50", "--unit=modproxy").CombinedOutput()
		m.t.Fatalf("%s: %v\n%s", what, err, journal)
	}
}

// untilServed waits until the service answers at a URL.
func (m *machine) untilServed(url string) {
	m.t.Helper()
	m.until(url, func() bool { return rig.Get(m.t.Context(), url+"/-/healthz").Status == 200 })
}

// property returns a property of a unit.
func (m *machine) property(unit, name string) string {
	m.t.Helper()
	return strings.TrimSpace(m.run("systemctl", "show", "--property="+name, "--value", unit))
}

// logged returns how often a text is in the journal of the service.
func (m *machine) logged(text string) int {
	m.t.Helper()
	return strings.Count(m.run("journalctl", "--no-pager", "--unit=modproxy"), text)
}

// The installed service starts with the system. Within its restrictions it runs git and the child process that reads
// configurations, listens on a port below 1024, and writes a log file. With a socket, neither a restart nor an upgrade refuses a
// client.
func TestBoot(t *testing.T) {
	r, u := newRoot(t), newRegistry(t)
	deb := r.copyIn(find(t, builtVariable, "*.deb"))[0]
	r.run("dpkg", "--install", deb)
	r.configure(u)
	m := r.boot()
	m.untilServed("http://127.0.0.1:8080")
	if state := m.property("modproxy.socket", "UnitFileState"); state != "disabled" {
		t.Errorf("after the installation, the socket is %s", state)
	}
	if user := strings.TrimSpace(m.run("stat", "--format=%U", "/proc/"+m.property("modproxy.service", "MainPID"))); user != "modproxy" {
		t.Errorf("the service runs as %s", user)
	}
	install(t, "http://127.0.0.1:8080")
	m.until("the called module is prefetched", func() bool {
		return bytes.Contains(rig.Get(t.Context(), "http://127.0.0.1:8080/-/metrics").Body, []byte("\nmodproxy_packages_read_ahead_total 1\n"))
	})
	m.run("systemctl", "reload", "modproxy")
	m.until("the reload is logged", func() bool { return m.logged("reloaded") > 0 })

	m.dropIn("modproxy.service", "[Service]\nEnvironment=MODPROXY_LISTEN=127.0.0.1:443\nStandardError=append:/var/log/modproxy/modproxy.log\n")
	m.run("systemctl", "restart", "modproxy")
	m.untilServed("http://127.0.0.1:443")
	m.rotate()

	const address = "127.0.0.1:444" // neither that of the configuration nor the one before
	m.openSocket(address)
	m.replace(address, deb)
	m.useTwoServices(address)
	m.openSocket(address)
	m.failToStart(address)
	m.run("dpkg", "--remove", "modproxy")
	for _, unit := range []string{"modproxy.socket", "modproxy.service"} {
		if state := m.property(unit, "ActiveState"); state != "inactive" {
			t.Errorf("after dpkg --remove, %s is %s", unit, state)
		}
	}
	m.run("dpkg", "--purge", "modproxy")
	if left := m.run("find", "/etc/systemd/system", "-name", "modproxy*", "-type", "l"); left != "" {
		t.Errorf("dpkg --purge leaves links:\n%s", left)
	}
	if !r.has("var/lib/modproxy/ledger") {
		t.Error("dpkg --purge removes the ledger")
	}
}

// dropIn writes the drop-in of a unit.
func (m *machine) dropIn(unit, text string) {
	m.t.Helper()
	dir := m.path("etc/systemd/system", unit+".d")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "test.conf"), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.run("systemctl", "daemon-reload")
}

// rotate rotates the log file, after which the service still writes to it.
func (m *machine) rotate() {
	m.t.Helper()
	const log = "var/log/modproxy/modproxy.log"
	m.until("the service logs its start", func() bool { return strings.Contains(m.read(log), `"started"`) })
	old := m.read(log)
	m.run("logrotate", "--force", "/etc/logrotate.d/modproxy")
	if got := m.read(log + ".1"); !strings.HasPrefix(got, old) {
		m.t.Errorf("the rotated log file has %q; want %q first", got, old)
	}
	m.run("systemctl", "reload", "modproxy")
	m.until("the log file grows after its rotation", func() bool {
		text := m.read(log)
		return strings.HasPrefix(text, "{") && strings.Contains(text, "reloaded")
	})
}
