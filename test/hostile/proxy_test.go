//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// A proxy is a running modproxy in its jail. It can write to its data directory and to the directory of the git that records calls of git.
type proxy struct {
	t      testing.TB // of the case
	dir    string     // of the configuration and the log
	data   string
	url    string
	server *rig.Process

	client    *http.Client // for requests, if not plain
	variables []string     // additional variables of its environment
	shown     string       // the credential of requests without one of their own; not for ""
	unwritten []string     // texts that only clients may see, not logs or files

	mu       sync.Mutex
	asked    int               // number of requests that must be in the log
	others   bool              // clients other than the test have sent requests
	packages map[string]string // digest of the first answer for each package, by path
	before   usage
}

// ordinary is the configuration unless a case has another. Its policy has no exceptions, and tests can reach its bounds.
const ordinary = `
upstreams:
  - {host: up-a.test, private: true}
  - {host: up-b.test, private: true}
  - {host: corp.test, token_file: TOKEN}
  - host: "*"
routes:
  - {namespace: corp, upstream: corp.test}
egress: {ca_file: CA}
credentials:
  - {host: src2.test, username: robot, password_file: PASSWORD}
fetch: {max_received: 64MiB, max_unpacked: 64MiB, max_files: 20000, timeout: 1m}
log: {level: debug}
shutdown: 5s
`

// hedging is for tests of slow servers.
const hedging = "MODPROXY_EGRESS_HEDGING=true"

// shared are the programs that keep running between tests, by configuration.
var shared = map[string]*proxy{}

// start returns the running program for a configuration. Tests that use it must leave it and the good servers unchanged.
func start(t *testing.T, config string) *proxy {
	t.Helper()
	p := shared[config]
	if p == nil {
		dir, err := os.MkdirTemp("", "shared-")
		if err != nil {
			t.Fatal(err)
		}
		p = newProxy(t, dir, config)
		shared[config] = p
	}
	p.t = t
	t.Cleanup(func() {
		p.checkAll(t)
		p.checkUsage()
	})
	return p
}

// finishShared ends the shared programs, and reports whether all checks passed.
func finishShared() bool {
	r := &reporter{}
	for _, p := range shared {
		p.t = r
		p.finish()
	}
	return !r.failed
}

// A reporter replaces a test after all tests have ended.
type reporter struct {
	testing.TB
	failed bool
}

func (r *reporter) Helper()      {}
func (r *reporter) Failed() bool { return r.failed }

func (r *reporter) Errorf(format string, args ...any) {
	r.failed = true
	fmt.Fprintf(os.Stderr, "hostile: after all tests: "+format+"\n", args...)
}

func (r *reporter) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }

func (r *reporter) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (r *reporter) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (r *reporter) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// startOwn runs modproxy with a configuration until the test ends, and then makes the final checks. variables are additional.
func startOwn(t *testing.T, config string, variables ...string) *proxy {
	t.Helper()
	p := newProxy(t, t.TempDir(), config, variables...)
	t.Cleanup(p.finish)
	return p
}

func newProxy(t *testing.T, dir, config string, variables ...string) *proxy {
	t.Helper()
	if err := rig.DependOnSources(); err != nil {
		t.Fatal(err)
	}
	p := &proxy{t: t, dir: dir, data: filepath.Join(dir, "data"), variables: variables, packages: map[string]string{}}
	config = strings.NewReplacer(
		"TOKEN", p.write("token", secretToken), "PASSWORD", p.write("password", secretPassword), "CA", world.caFile,
	).Replace(config)
	p.write("modproxy.yaml", config)
	if err := os.Mkdir(p.data, 0o700); err != nil {
		t.Fatal(err)
	}
	p.watchGit()
	p.launch()
	if strings.Contains(config, "required: true") {
		p.shown = p.token("operator", "--admin", "--scope", "*")
	}
	p.warmUp()
	return p
}

func (p *proxy) write(name, text string) string {
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

// watchGit puts a program before git that records the arguments of git.
func (p *proxy) watchGit() {
	git, err := exec.LookPath("git")
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(p.dir, "git"), 0o700); err != nil {
		p.t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho \"$@\" >>%s\nexec %s \"$@\"\n", filepath.Join(p.dir, "git", "started"), git)
	if err := os.WriteFile(filepath.Join(p.dir, "git", "git"), []byte(script), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// gits returns the recorded calls of git.
func (p *proxy) gits() []string {
	data, err := os.ReadFile(filepath.Join(p.dir, "git", "started"))
	if err != nil {
		p.t.Fatal(err) // the warm-up has started git
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// launch starts the program and waits until it is ready.
func (p *proxy) launch() {
	p.t.Helper()
	cmd := exec.Command("/proc/self/exe", p.data+":"+filepath.Join(p.dir, "git"), os.Getenv(rig.ProgramVariable),
		"serve", "--config", filepath.Join(p.dir, "modproxy.yaml"), "--listen", "127.0.0.1:0", "--data", p.data)
	cmd.Env = []string{rig.RoleVariable + "=jail", "PATH=" + filepath.Join(p.dir, "git") + ":" + os.Getenv("PATH"), "HOME=" + p.dir, "GORACE=atexit_sleep_ms=20",
		"MODPROXY_EGRESS_HEDGING=false"} // many tests count requests
	cmd.Env = append(cmd.Env, p.variables...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var err error
	if p.server, err = rig.Start(cmd, filepath.Join(p.dir, "log")); err != nil {
		p.t.Fatal(err)
	}
	running[p.server.ID()] = true
	if p.url, err = p.server.URL(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

// log returns the log of modproxy.
func (p *proxy) log() []byte { return p.server.Log() }

// warmUp uses each feature once, so that later measurements do not include first-use costs.
func (p *proxy) warmUp() {
	p.t.Helper()
	for _, m := range []module{{"up-a.test", "good", "archive", "aws"}, {"up-a.test", "good", "git", "aws"}} {
		if strings.Contains(string(p.config()), "up-a.test") {
			p.mustInstall(m, "1.0.0")
		}
	}
	p.before = p.settled(usage{})
}

func (p *proxy) config() []byte {
	data, err := os.ReadFile(filepath.Join(p.dir, "modproxy.yaml"))
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// run runs one case, and then checks what must hold after every case.
func (p *proxy) run(name string, f func(t *testing.T)) {
	whole := p.t
	whole.(*testing.T).Run(name, func(t *testing.T) {
		p.t = t
		defer func() { p.t = whole }()
		f(t)
		p.check(t)
	})
}

// stop ends the program with SIGTERM, which must succeed.
func (p *proxy) stop() {
	p.t.Helper()
	delete(running, p.server.ID())
	p.server.Signal(syscall.SIGTERM) // if it has ended, Wait returns an error
	if err := p.server.Wait(2 * time.Minute); err != nil {
		p.t.Errorf("the end of modproxy: %v", err)
	}
}

// finish makes the final checks of a program: its resources are released, a restart leaves no temporary files, and logs and files have no
// secrets.
func (p *proxy) finish() {
	p.checkAll(p.t)
	p.checkUsage()
	if p.others {
		p.asked = p.counted() + 1 // the request for the count is one, too
	}
	p.stop()
	p.checkLog()
	p.launch()
	if code := p.status("/-/readyz"); code != http.StatusOK {
		p.t.Errorf("after a restart: /-/readyz answered %d", code)
	}
	p.stop()
	for _, name := range []string{"scratch", "tmp"} {
		left, err := os.ReadDir(filepath.Join(p.data, name))
		if err != nil || len(left) > 0 {
			p.t.Errorf("after a restart, %s has %v, %v; want nothing", name, left, err)
		}
	}
	p.checkData()
	if p.t.Failed() && testing.Verbose() {
		lines := slices.DeleteFunc(bytes.Split(p.log(), []byte("\n")), func(line []byte) bool {
			return bytes.Contains(line, []byte(`"kind":"health"`)) || bytes.Contains(line, []byte(`"kind":"metrics"`))
		})
		p.t.Logf("the end of the log:\n%s", bytes.Join(lines[max(0, len(lines)-5):], []byte("\n")))
	}
}

// module is a module address.
type module struct{ host, namespace, name, system string }

// path is the path of a request about the module at modproxy.
func (m module) path(rest string) string {
	return fmt.Sprintf("/%s/v1/modules/%s/%s/%s/%s", m.host, m.namespace, m.name, m.system, rest)
}

// archive is the path of the package of one version.
func (m module) archive(version string) string {
	host, port, _ := strings.Cut(m.host, ":")
	file := fmt.Sprintf("%s-%s-%s.tar.gz", m.name, m.system, version)
	return fmt.Sprintf("/%s~%s/v1/modules/%s/%s/%s/%s/%s", host, port, m.namespace, m.name, m.system, version, file)
}
