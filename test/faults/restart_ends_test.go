//go:build linux

package faults_test

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// end sends SIGTERM to the running process, which must exit with 0.
func (m *managed) end() {
	m.t.Helper()
	if err := syscall.Kill(m.id, syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	if line := m.line(); line != "exit 0" {
		m.t.Errorf("the end of a process: %s", line)
	}
}

// contains checks that the log of all processes contains a text.
func (m *managed) contains(text string) {
	m.t.Helper()
	if is, err := os.ReadFile(m.path("log")); err != nil || !bytes.Contains(is, []byte(text)) {
		m.t.Errorf("the log does not contain %q: %v", text, err)
	}
}

// A second SIGTERM ends a process whose downloads are in progress. The next process, which waits, takes over.
func TestRestartSecondSignal(t *testing.T) {
	t.Setenv("MODPROXY_SHUTDOWN", "1h")
	t.Setenv("MODPROXY_LOG_LEVEL", "info")
	g := &gates{all: map[string]*gate{}}
	m := manage(newProxy(t, with{around: g.around}))
	t.Cleanup(g.openAll)
	held := g.close("/held/")
	path := packagePath("held", "1.0.0")
	request, err := rig.NewRequest(t.Context(), http.MethodGet, m.url+path)
	if err != nil {
		t.Fatal(err)
	}
	cut := make(chan rig.Answer, 1)
	go func() { cut <- rig.Do(&http.Client{Transport: &http.Transport{}}, request) }() // it does not retry on a new connection
	<-held.reached
	old := m.id
	if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.logged("stopping", 1)
	m.launch()
	m.id = m.started()
	m.logged("data_awaited", 1)
	if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if line := m.line(); line != "exit 143" {
		t.Errorf("after a second SIGTERM: %s", line)
	}
	m.contains("modproxy: a second signal ends it at once: terminated\n")
	if a := <-cut; a.Err == nil {
		t.Errorf("a client of the old process got %v", a)
	}
	m.logged("started", 2)
	close(held.open)
	if err := m.get(t.Context(), path); err != nil {
		t.Error(err)
	}
	m.end()
	m.kill()
	if err := m.check(); err != nil {
		t.Error(err)
	}
	m.residue()
}

// If the next process refuses its configuration, clients wait, and are served when a process has started with a correct one.
func TestRestartWrongConfiguration(t *testing.T) {
	m := manage(newProxy(t, with{}))
	path := packagePath("m1", "1.0.0")
	if err := m.get(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	m.end()
	waiting, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	request, err := http.NewRequest(http.MethodGet, m.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Write(waiting); err != nil {
		t.Fatal(err)
	}

	file := m.path("modproxy.yaml")
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(right, "nonsense: 1\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	m.launch()
	m.started()
	if line := m.line(); line != "exit 2" {
		t.Errorf("with a wrong configuration: %s", line)
	}
	m.contains(`unknown key "nonsense"`)

	if err := os.WriteFile(file, right, 0o600); err != nil {
		t.Fatal(err)
	}
	m.launch()
	m.id = m.started()
	if err := waiting.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if a, err := http.ReadResponse(bufio.NewReader(waiting), request); err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("a client that has waited: %v, %v", a, err)
	}
	m.end()
}
