//go:build linux

package faults_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// manager is the part of a service manager that systemd-socket-activate does not have: it starts a modproxy with the passed socket for
// each line of its input, and prints the id and the exit code of each.
const manager = `
while read -r line; do
	{ sh -c 'echo "$$"; LISTEN_PID=$$ exec "$PROGRAM" serve >>"$OUT" 2>>"$LOG"'; echo "exit $?"; } &
done
wait`

// A managed proxy has a socket that systemd-socket-activate has opened. It is restarted while clients connect.
type managed struct {
	*proxy
	input  io.Writer
	output chan string // lines of the manager
	id     int         // of the process that was started last
}

// manage lets systemd-socket-activate listen, and starts the first modproxy.
func manage(r *proxy) *managed {
	r.t.Helper()
	activate, err := exec.LookPath("systemd-socket-activate")
	if err != nil {
		rig.Missing(r.t, "systemd-socket-activate, of the package systemd, is missing: %v", err)
	}
	of := r.command()
	cmd := exec.Command(activate, "--listen", strings.SplitN(r.url, "//", 2)[1])
	for _, variable := range append(of.Env, "PROGRAM="+r.program, "OUT="+r.path("out"), "LOG="+r.path("log")) {
		cmd.Args = append(cmd.Args, "--setenv="+variable)
	}
	cmd.Args = append(cmd.Args, "sh", "-c", manager)
	cmd.SysProcAttr = of.SysProcAttr
	m := &managed{proxy: r, output: make(chan string, 100)}
	input, output, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	cmd.Stdin, m.input = input, output
	r.t.Cleanup(func() { output.Close(); read.Close() })
	if r.server, err = rig.StartBy(func(cmd *exec.Cmd) error { cmd.Stdout = write; return cmd.Start() }, cmd, r.path("manager.log")); err != nil {
		r.t.Fatal(err)
	}
	input.Close()
	write.Close()
	go func() {
		for lines := bufio.NewScanner(read); lines.Scan(); {
			m.output <- lines.Text()
		}
	}()
	m.launch()
	r.ready() // connects, so that systemd-socket-activate runs the manager
	m.id = m.started()
	return m
}

// launch makes the manager start a modproxy.
func (m *managed) launch() {
	m.t.Helper()
	if _, err := io.WriteString(m.input, "start\n"); err != nil {
		m.t.Fatal(err)
	}
}

// line returns the next line of the manager.
func (m *managed) line() string {
	m.t.Helper()
	select {
	case line := <-m.output:
		return line
	case <-time.After(2 * time.Minute):
		m.t.Fatalf("the manager prints nothing: %s", m.server.Log())
		return ""
	}
}

// started returns the id of the process that the manager has started.
func (m *managed) started() (id int) {
	m.t.Helper()
	if line := m.line(); line == "" {
		m.t.Fatal("no id")
	} else if _, err := fmt.Sscan(line, &id); err != nil {
		m.t.Fatalf("%q: %v", line, err)
	}
	return id
}

// logged waits until the log has n events of a name.
func (m *managed) logged(name string, n int) {
	m.t.Helper()
	is := 0
	err := m.server.Until(m.t.Context(), func() bool {
		text, _ := os.ReadFile(m.path("log"))
		is = bytes.Count(text, []byte(`"message":"`+name+`"`))
		return is >= n
	})
	if err != nil {
		m.t.Fatalf("%d events %s, want %d: %v", is, name, n, err)
	}
}

// gates stop answers of a registry in their middle.
type gates struct {
	mu  sync.Mutex
	all map[string]*gate // by a part of the path
}

type gate struct {
	reached, open chan struct{}
	once          sync.Once
}

// close makes the registry stop in the middle of answers with part in their path.
func (g *gates) close(part string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all[part] = &gate{reached: make(chan struct{}), open: make(chan struct{})}
	return g.all[part]
}

// openAll lets all answers end, after a test that has failed in a restart.
func (g *gates) openAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gate := range g.all {
		select {
		case <-gate.open:
		default:
			close(gate.open)
		}
	}
}

func (g *gates) of(path string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	for part, gate := range g.all {
		if strings.Contains(path, part) {
			return gate
		}
	}
	return nil
}

// around returns a handler that stops at the gates.
func (g *gates) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		gate := g.of(q.URL.Path)
		if gate == nil {
			h.ServeHTTP(w, q)
			return
		}
		whole := httptest.NewRecorder()
		h.ServeHTTP(whole, q)
		for name, values := range whole.Header() {
			w.Header()[name] = values
		}
		body := whole.Body.Bytes()
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(whole.Code)
		if q.Method == http.MethodHead {
			return
		}
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		gate.once.Do(func() { close(gate.reached) })
		select {
		case <-gate.open:
			w.Write(body[len(body)/2:])
		case <-q.Context().Done():
		}
	})
}

// Clients that install while modproxy is restarted see no failed request and no truncated package. While the old process sends a package
// to a slow client, the new one answers.
func TestRestart(t *testing.T) {
	for name, test := range map[string]struct{ restarts, clients int }{
		"http": {rounds(3, 10), rounds(4, 50)},
		"tls":  {rounds(1, 10), rounds(4, 50)},
	} {
		t.Run(name, func(t *testing.T) { testRestart(t, name == "tls", test.restarts, test.clients) })
	}
}

func testRestart(t *testing.T, encrypted bool, restarts, clients int) {
	t.Setenv("MODPROXY_SHUTDOWN", "2m")
	t.Setenv("MODPROXY_LOG_LEVEL", "info")
	t.Setenv("MODPROXY_FETCH_AT_ONCE", "200") // a download that stands still is cut if another one waits for its slot
	t.Setenv("MODPROXY_PROVIDERS_AT_ONCE", "200")
	g := &gates{all: map[string]*gate{}}
	large := &sized{bytes: rounds(12<<20, 50<<20)}
	r := newProxy(t, with{around: g.around, registry: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.Contains(q.URL.Path, "/large/") {
			large.ServeHTTP(w, q)
			return
		}
		answer(w, q)
	})})
	r.client.Timeout = 5 * time.Minute
	if encrypted {
		cert, key, err := registrytest.CA().Issue("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		for variable, text := range map[string][]byte{"MODPROXY_TLS_CERT_FILE": cert, "MODPROXY_TLS_KEY_FILE": key} {
			t.Setenv(variable, r.path(variable))
			if err := os.WriteFile(r.path(variable), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(registrytest.CA().PEM)
		r.client.Transport = &http.Transport{MaxIdleConnsPerHost: 16, TLSClientConfig: &tls.Config{RootCAs: trusted}}
		r.url = strings.Replace(r.url, "http:", "https:", 1)
	}
	m := manage(r)
	t.Cleanup(g.openAll)
	p := r.keep("large")
	end := m.install(clients)
	for i := range restarts {
		m.restart(i, p, g)
	}
	installed := end()
	m.end()
	r.kill()
	if err := r.check(); err != nil {
		t.Error(err)
	}
	r.residue()
	text, err := os.ReadFile(r.path("log"))
	if err != nil || bytes.Count(text, []byte(`"requests_cut":0`)) != restarts+1 {
		t.Errorf("not every process has ended without cutting answers: %v", err)
	}
	t.Logf("%d packages and %d installations during %d restarts", r.acked(), installed, restarts)
}

// toysOfClients is the number of versions of the provider that these clients request.
const toysOfClients = 8

// install lets n clients request packages, and Terraform and OpenTofu install modules, until end is called. Every request must succeed.
func (m *managed) install(n int) (end func() (installations int64)) {
	ctx, cancel := context.WithCancel(m.t.Context())
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for ctx.Err() == nil {
				i := m.next.Add(1)
				path := packagePath(fmt.Sprintf("m%d", i%50), fmt.Sprintf("1.%d.0", i))
				switch before := m.some(); {
				case i%3 == 0:
					path = toyZip(i / 3 % toysOfClients)
				case i%3 == 1 && before != "":
					path = before
				}
				if err := m.get(m.t.Context(), path); err != nil {
					if m.t.Context().Err() == nil { // the test has not failed yet
						m.t.Error(err)
					}
					return
				}
				if a := m.ask("GET", fmt.Sprintf("/up.example.com/v1/modules/acme/m%d/aws/versions", m.next.Load()%50)); a.Err != nil || a.Status != http.StatusOK {
					m.t.Errorf("versions: %v", a)
					return
				}
			}
		})
	}
	var installations atomic.Int64
	for name, client := range rig.Clients(m.t) {
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				dir := m.path(fmt.Sprintf("%s-%d", name, i))
				if err := m.installBy(client, dir, i); err != nil {
					m.t.Error(err)
					return
				}
				installations.Add(1)
				os.RemoveAll(dir)
			}
		})
	}
	return func() int64 {
		cancel()
		group.Wait()
		return installations.Load()
	}
}

// installBy makes a client install modules and a provider.
func (m *managed) installBy(client, dir string, i int) error {
	calls := map[string]string{}
	for j := range 3 {
		calls[fmt.Sprintf("m%d", j)] = fmt.Sprintf("  source = \"up.example.com/acme/t%d/aws\"\n  version = \"1.0.0\"", 3*i+j)
	}
	modules := rig.Installation{
		Dir: filepath.Join(dir, "modules"), Calls: calls, CAFile: m.path("ca.pem"),
		Registries: map[string]string{"up.example.com": m.url + "/up.example.com/v1/modules/"},
	}
	providers := rig.Installation{
		Dir: filepath.Join(dir, "providers"), CAFile: m.path("ca.pem"),
		Providers:  map[string]string{"toy": fmt.Sprintf("source = \"up.example.com/acme/toy\"\n version = \"1.%d.0\"", 1+i%toysOfClients)},
		Registries: map[string]string{"up.example.com": m.url + "/up.example.com/v1/providers/"},
	}
	if _, err := modules.Get(m.t.Context(), client); err != nil {
		return err
	}
	_, err := providers.Init(m.t.Context(), client)
	return err
}

// trickle appends body to got, slowly, until rest is called, which reads what is left. The client remains in the middle of the body
// during a restart, and takes enough of it: modproxy cuts off a client that takes nothing for [httpx.PieceTime].
func trickle(body io.Reader, got *bytes.Buffer) (rest func() error) {
	end, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-end:
				_, err := io.Copy(got, body)
				ended <- err
				return
			case <-time.After(time.Second):
			}
			if _, err := io.CopyN(got, body, 16<<10); errors.Is(err, io.EOF) {
				ended <- nil
				return
			} else if err != nil {
				ended <- err
				return
			}
		}
	}()
	return func() error { close(end); return <-ended }
}

// restart replaces the process. Meanwhile a client reads p slowly, others wait for packages whose downloads are in progress, and one
// receives such a package.
func (m *managed) restart(i int, p keptPackage, g *gates) {
	m.t.Helper()
	var waiting sync.WaitGroup
	get := func(path string) {
		waiting.Go(func() {
			if err := m.get(m.t.Context(), path); err != nil {
				m.t.Errorf("restart %d: %v", i, err)
			}
		})
	}
	held, late := g.close(fmt.Sprintf("/held%d/", i)), g.close(fmt.Sprintf("/late%d/", i))
	toy := func(n int) (path string, of *gate) { // large packages that no other client requests
		version := fmt.Sprintf("1.%d.0", toysOfClients+1+2*(2*i+n))
		return zipPath(version, platform), g.close("toy_" + version + "_" + platform + ".zip")
	}
	heldZip, zipGate := toy(0)
	lateZip, lateZipGate := toy(1)

	slow, got := m.begin(p)
	slowRest := trickle(slow.Body, got)
	get(packagePath(fmt.Sprintf("held%d", i), "1.0.0"))
	part, rest := m.begin(keptPackage{path: heldZip})
	partRest := trickle(part.Body, rest)
	<-held.reached
	<-zipGate.reached
	old := m.id
	if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	m.launch()
	m.id = m.started()
	m.logged("stopping", i+1)
	m.logged("data_awaited", i+1)

	// The old process answers while downloads are in progress.
	if a := m.ask("GET", "/-/healthz"); a.Status != http.StatusOK {
		m.t.Errorf("restart %d: %v", i, a)
	}
	get(packagePath(fmt.Sprintf("late%d", i), "1.0.0"))
	get(heldZip)
	get(lateZip)
	<-late.reached
	<-lateZipGate.reached
	close(held.open)
	close(zipGate.open)
	m.logged("handed_over", i+1)
	m.logged("started", i+2)
	close(late.open)
	close(lateZipGate.open)

	// The new process answers while the old one sends.
	if err := syscall.Kill(old, 0); err != nil {
		m.t.Errorf("restart %d: the old process has ended during a transfer: %v", i, err)
	}
	if a := m.ask("GET", "/-/readyz"); a.Status != http.StatusOK {
		m.t.Errorf("restart %d: %v", i, a)
	}
	waiting.Wait()
	if err := partRest(); err != nil {
		m.t.Errorf("restart %d: a package whose download was in progress: %d bytes, %v", i, rest.Len(), err)
	}
	if a := m.ask("GET", heldZip); !bytes.Equal(a.Body, rest.Bytes()) {
		m.t.Errorf("restart %d: a package whose download was in progress has %d other bytes than %v", i, rest.Len(), a)
	}
	part.Body.Close()
	if err := slowRest(); err != nil || !bytes.Equal(got.Bytes(), p.body) {
		m.t.Errorf("restart %d: %d bytes of %d, %v", i, got.Len(), len(p.body), err)
	}
	slow.Body.Close()
	if line := m.line(); line != "exit 0" {
		m.t.Errorf("restart %d: %s", i, line)
	}
}
