//go:build linux

package packages_test

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modproxy/modproxy/test/rig"
)

// listenAt returns a drop-in of the socket.
func listenAt(address string) string {
	return "[Socket]\nListenStream=\nListenStream=" + address + "\n"
}

// openSocket lets systemd open the port, as docs/how-to/restart.md says.
func (m *machine) openSocket(address string) {
	m.t.Helper()
	m.dropIn("modproxy.service", "")
	m.dropIn("modproxy.socket", listenAt(address))
	m.run("systemctl", "stop", "modproxy")
	m.run("systemctl", "enable", "--now", "modproxy.socket")
	m.run("systemctl", "start", "modproxy")
	m.untilServed("http://" + address)
	m.until("the service has the socket", func() bool { return m.logged(`"message":"socket_passed","address":"`+address+`"`) > 0 })
}

// replace replaces the process of the service by a restart, and by the installation of a package. No client notices.
func (m *machine) replace(address, deb string) {
	m.t.Helper()
	m.dropIn("modproxy.service", "[Service]\nEnvironment=MODPROXY_LOG_LEVEL=error\n") // not a line for each request
	clients := m.request("http://" + address)
	for _, command := range [][]string{{"systemctl", "restart", "modproxy"}, {"dpkg", "--install", deb}} {
		clients.untilServed()
		before := m.property("modproxy.service", "MainPID")
		m.run(command...)
		clients.untilServed()
		if m.property("modproxy.service", "MainPID") == before {
			m.t.Errorf("the old process still runs after %v", command)
		}
	}
	clients.end()
}

// useTwoServices replaces one instance of a service by another, as docs/how-to/restart.md says. No client notices.
func (m *machine) useTwoServices(address string) {
	m.t.Helper()
	const file = "etc/systemd/system/modproxy@.service"
	unit := strings.Replace(m.read("usr/lib/systemd/system/modproxy.service"), "[Service]\n", "[Service]\nSockets=modproxy.socket\n", 1)
	if err := os.WriteFile(m.path(file), []byte(unit), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.dropIn("modproxy.socket", listenAt(address)+"Service=modproxy@blue.service\n")
	m.run("systemctl", "disable", "--now", "modproxy")
	m.run("systemctl", "restart", "modproxy.socket")
	m.run("systemctl", "enable", "--now", "modproxy@blue")
	clients := m.request("http://" + address)
	clients.untilServed()
	m.run("systemctl", "stop", "--no-block", "modproxy@blue")
	m.run("systemctl", "start", "modproxy@green")
	clients.untilServed()
	m.until("the old instance has ended", func() bool { return m.property("modproxy@blue.service", "ActiveState") == "inactive" })
	clients.untilServed()
	clients.end()
	m.run("systemctl", "disable", "modproxy@blue")
	m.run("systemctl", "stop", "modproxy.socket", "modproxy@green")
	if err := os.Remove(m.path(file)); err != nil {
		m.t.Fatal(err)
	}
}

// clients request a package and a list of versions all the time.
type clients struct {
	m      *machine
	served []atomic.Int64 // successful requests of each client
	stop   context.CancelFunc
	group  sync.WaitGroup
}

// request starts clients: every other one reuses its connection.
func (m *machine) request(url string) *clients {
	ctx, stop := context.WithCancel(m.t.Context())
	c := &clients{m: m, served: make([]atomic.Int64, 4), stop: stop}
	m.t.Cleanup(c.end) // of a test that fails
	for i := range c.served {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
		c.group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path := []string{network, "/registry.acme.example/v1/modules/acme/network/aws/versions"}[n%2]
				r, err := rig.NewRequest(m.t.Context(), http.MethodGet, url+path)
				if err != nil {
					m.t.Error(err)
					return
				}
				if a := rig.Do(client, r); a.Err != nil || a.Status != http.StatusOK || len(a.Body) == 0 {
					m.t.Errorf("GET %s: %v", path, a)
					return
				}
				c.served[i].Add(1)
			}
		})
	}
	return c
}

// untilServed waits until each client was served twice.
func (c *clients) untilServed() {
	c.m.t.Helper()
	for i := range c.served {
		before := c.served[i].Load()
		c.m.until("a client is served", func() bool { return c.served[i].Load() >= before+2 || c.m.t.Failed() })
	}
}

// end stops the clients.
func (c *clients) end() {
	c.stop()
	c.group.Wait()
}

// failToStart breaks the configuration. A client waits, and is served when the configuration was corrected.
func (m *machine) failToStart(address string) {
	m.t.Helper()
	// The strictest limits, without the pauses of the socket that systemd has since version 255.
	m.dropIn("modproxy.service", "[Unit]\nStartLimitBurst=1\n")
	m.dropIn("modproxy.socket", listenAt(address)+"PollLimitIntervalSec=0\nTriggerLimitIntervalSec=500ms\nTriggerLimitBurst=1\n")
	right := m.read(configFile)
	if err := appendTo(m.path(configFile), "nonsense: 1\n"); err != nil {
		m.t.Fatal(err)
	}
	if out, err := m.command("systemctl", "restart", "modproxy").CombinedOutput(); err == nil {
		m.t.Errorf("systemctl restart reports no error for a wrong configuration: %s", out)
	}
	answer := make(chan rig.Answer, 1)
	go func() { answer <- rig.Get(m.t.Context(), "http://"+address+"/-/healthz") }()
	m.until("starts fail again", func() bool { return len(answer) > 0 || m.logged("modproxy.yaml:") >= 3 })
	if err := os.WriteFile(m.path(configFile), []byte(right), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.until("the client is served", func() bool { return len(answer) > 0 })
	if a := <-answer; a.Status != http.StatusOK {
		state := strings.TrimSpace(m.run("systemctl", "show", "--property=ActiveState,Result", "modproxy.socket"))
		m.t.Errorf("after a start with a wrong configuration: %v; the socket: %s", a, state)
	}
}
