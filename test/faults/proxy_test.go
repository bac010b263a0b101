//go:build linux

package faults_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/modproxy/modproxy/test/registrytest"
)

// A proxy is a modproxy with its data directory, its registry, and clients that send requests all the time.
type proxy struct {
	t       *testing.T
	program string
	dir     string // of the configuration and the log
	data    string
	url     string
	client  *http.Client

	upstream *httptest.Server
	asked    atomic.Int64 // requests to upstream
	moved    sync.Map     // versions of the module "changes" that have changed upstream

	starter func(*exec.Cmd) error // starts modproxy; nil: normally
	server  *rig.Process          // nil while it does not run
	next    atomic.Int64

	mu       sync.Mutex
	acks     map[string]string // digest of each package that a client received, by path
	pins     map[string]string // first sum in the ledger, by the path of the package
	drifts   map[string]bool   // versions of "changes" whose change was reported to a client
	statuses map[int]int
}

// with sets the unusual properties of a proxy.
type with struct {
	program  string                          // instead of the program under test
	data     string                          // its data directory
	registry http.Handler                    // instead of answer
	around   func(http.Handler) http.Handler // wraps the registries of modules and of the provider
}

func newProxy(t *testing.T, w with) *proxy {
	t.Helper()
	if err := rig.DependOnSources(); err != nil {
		t.Fatal(err)
	}
	w.program = cmp.Or(w.program, os.Getenv(rig.ProgramVariable))
	if w.registry == nil {
		w.registry = http.HandlerFunc(answer)
	}
	address := address(t)
	r := &proxy{
		t: t, program: w.program, dir: t.TempDir(), data: w.data, url: "http://" + address,
		client:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: time.Minute},
		starter: (*exec.Cmd).Start,
		acks:    map[string]string{}, pins: map[string]string{}, drifts: map[string]bool{}, statuses: map[int]int{},
	}
	r.data = cmp.Or(r.data, r.path("data"))
	registries := r.watched(w.registry)
	if w.around != nil {
		registries = w.around(registries)
	}
	r.upstream = upstream(t, registries)
	config := fmt.Sprintf(`
listen: %[1]s
data: %[2]s
upstreams: [{host: up.example.com, modules: %[3]s/v1/modules/, providers: %[3]s/v1/providers/, rate: 1000}]
egress: {allow: [127.0.0.0/8], ca_file: %[4]s}
cache: {memory: 1MiB}
log: {level: error}
shutdown: 5s
`, address, r.data, r.upstream.URL, filepath.Join(r.dir, "ca.pem"))
	if err := errors.Join(os.WriteFile(r.path("modproxy.yaml"), []byte(config), 0o600),
		os.WriteFile(r.path("ca.pem"), registrytest.CA().PEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.kill()
		if t.Failed() {
			text, _ := os.ReadFile(r.path("log"))
			t.Logf("the end of the log:\n%s", text[max(0, len(text)-4000):])
		}
	})
	return r
}

// address returns an address to listen on repeatedly. Its port is below 32768, so that no outgoing connection of another program takes
// it.
func address(t *testing.T) string {
	t.Helper()
	var err error
	for range 100 {
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal(err)
	return ""
}

func (r *proxy) path(name string) string { return filepath.Join(r.dir, name) }

func (r *proxy) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.program, args...)
	cmd.Env = append(os.Environ(), "MODPROXY_CONFIG="+r.path("modproxy.yaml"), "MODPROXY_EGRESS_HEDGING=false")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// start starts modproxy without waiting.
func (r *proxy) start(args ...string) {
	r.t.Helper()
	var err error
	if r.server, err = rig.StartBy(r.starter, r.command(append([]string{"serve"}, args...)...), r.path("log")); err != nil {
		r.t.Fatal(err)
	}
}

// ready waits until modproxy is ready, and returns how long that took.
func (r *proxy) ready() time.Duration {
	r.t.Helper()
	started := time.Now()
	if err := r.server.Until(r.t.Context(), r.isReady); err != nil {
		r.t.Fatal(err)
	}
	return time.Since(started)
}

func (r *proxy) isReady() bool {
	return r.ask("GET", "/-/readyz").Status == http.StatusOK
}

// kill kills modproxy and the programs that it has started.
func (r *proxy) kill() {
	if r.server != nil {
		r.server.Kill()
		r.server = nil
	}
}

// stop ends modproxy as an operator does.
func (r *proxy) stop() {
	r.t.Helper()
	if err := r.server.Stop(); err != nil {
		r.t.Errorf("the end of modproxy: %v", err)
	}
	r.server = nil
}

// load lets n clients request packages until ctx ends: new ones, some of a provider, and sometimes one that was requested before. end
// waits for the clients.
func (r *proxy) load(n int) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			for ctx.Err() == nil {
				path := ""
				if rand.IntN(4) == 0 {
					path = r.some()
				}
				if path == "" {
					i := r.next.Add(1)
					path = packagePath(fmt.Sprintf("m%d", i%50), fmt.Sprintf("1.%d.0", i))
					if i%4 == 0 {
						path = toyZip(i / 4)
					}
				}
				if err := r.get(ctx, path); err != nil {
					time.Sleep(10 * time.Millisecond) // it is not running, or has no space
				}
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

func (r *proxy) some() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path := range r.acks { // in random order
		return path
	}
	return ""
}

// get requests a package. A complete answer is acknowledged.
func (r *proxy) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", r.url+path, nil)
	if err != nil {
		return err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body) // an error if it is cut off
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses[resp.StatusCode]++
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s", path, resp.Status, bytes.TrimSpace(body))
	}
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if before, ok := r.acks[path]; ok && before != digest {
		r.t.Errorf("%s is %s, and was %s", path, digest, before)
	}
	r.acks[path] = digest
	return nil
}

// check returns an error unless, while nothing runs, all acknowledged packages are in the data directory and everything in it is right.
func (r *proxy) check() error {
	if _, err := os.Stat(filepath.Join(r.data, "ledger")); errors.Is(err, fs.ErrNotExist) && r.acked() == 0 {
		return nil // it was killed before it began
	}
	var verified, complaint bytes.Buffer
	cmd := r.command("verify", "--read-data", "--json")
	cmd.Stdout, cmd.Stderr = &verified, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("verify: %w\n%s%s", err, verified.String(), complaint.String())
	}
	is, err := r.kept()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := 0
	for path, digest := range r.acks {
		if is[path] != digest {
			lost++
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d of %d acknowledged packages are lost or changed", lost, len(r.acks))
	}
	return r.checkLedger()
}

// kept returns the digests of all stored packages, by path.
func (r *proxy) kept() (map[string]string, error) {
	var listed, complaint bytes.Buffer
	cmd := r.command("ls", "--json")
	cmd.Stdout, cmd.Stderr = &listed, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ls: %w\n%s", err, complaint.String())
	}
	is := map[string]string{}
	var list struct {
		Items []struct {
			named
			State, Digest string
		}
	}
	if err := json.Unmarshal(listed.Bytes(), &list); err != nil {
		return nil, err
	}
	for _, p := range list.Items {
		if p.State == "kept" {
			is[p.path()] = p.Digest
		}
	}
	return is, nil
}

// acked is the number of acknowledged packages.
func (r *proxy) acked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.acks)
}

// counts is the number of answers by status.
func (r *proxy) counts() map[int]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.statuses)
}

// residue fails the test if a temporary file remains.
func (r *proxy) residue() {
	r.t.Helper()
	for _, name := range []string{"tmp", "scratch"} {
		left, err := os.ReadDir(filepath.Join(r.data, name))
		if len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.t.Errorf("left in %s: %v, %v", name, left, err)
		}
	}
}
