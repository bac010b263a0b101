package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// readers is the number of tokens of clients.
const readers = 4

// A proxy is a modproxy with its registry: clients need tokens, every request has a line in the log, and data from the disk is verified.
type proxy struct {
	program string
	dir     string // of the configuration and the log
	data    string
	address string
	env     []string
	group   string                      // the file of a control group to join
	server  atomic.Pointer[rig.Process] // nil if it is not running
	up      *registry

	tokens   []string // of clients
	operator string   // reads the metrics
}

// newProxy returns an empty proxy that is not running yet, with additional configuration.
func (w *world) newProxy(ctx context.Context, atOnce int, more string) (*proxy, error) {
	dir, err := os.MkdirTemp(w.dir, "proxy-")
	if err != nil {
		return nil, err
	}
	p := &proxy{program: w.program, dir: dir, data: filepath.Join(dir, "data")}
	if err := os.Mkdir(p.data, 0o700); err != nil { // it gets the tokens
		return nil, err
	}
	if p.address, err = freeAddress(); err != nil {
		return nil, err
	}
	if p.up, err = startRegistry(atOnce); err != nil {
		return nil, err
	}
	config := fmt.Sprintf(`listen: %[1]s
data: %[2]s
upstreams: [{host: %[3]s, modules: %[4]s/v1/modules/, providers: %[4]s/v1/providers/, rate: 100000}]
egress: {allow: [127.0.0.0/8], ca_file: %[5]s}
auth: {required: true}
%[6]s`, p.address, p.data, registryHost, p.up.url, p.path("ca.pem"), more)
	err = errors.Join(os.WriteFile(p.path("modproxy.yaml"), []byte(config), 0o600),
		os.WriteFile(p.path("ca.pem"), registrytest.CA().PEM, 0o600))
	for i := 0; i < readers && err == nil; i++ {
		var token string
		token, err = p.token(ctx, fmt.Sprint("reader", i), "--scope", "*")
		p.tokens = append(p.tokens, token)
	}
	if err == nil {
		p.operator, err = p.token(ctx, "operator", "--admin")
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// freeAddress is an address to listen on repeatedly. Its port is below 32768, so that no outgoing connection of another program takes it.
func freeAddress() (string, error) {
	var l net.Listener
	var err error
	for range 100 {
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))); err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", err
}

func (p *proxy) path(name string) string { return filepath.Join(p.dir, name) }

func (p *proxy) token(ctx context.Context, name string, flags ...string) (string, error) {
	out, err := p.verb(ctx, append([]string{"token", "create", name, "--expires", "never"}, flags...)...)
	return strings.TrimSpace(string(out)), err
}

func (p *proxy) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "MODPROXY_CONFIG=" + p.path("modproxy.yaml")}, p.env...)
	return cmd
}

// verb runs a verb of modproxy and returns its output.
func (p *proxy) verb(ctx context.Context, args ...string) ([]byte, error) {
	cmd := p.command(ctx, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("modproxy %s: %w\n%.2000s%.2000s", strings.Join(args, " "), err, out, &complaint)
	}
	return out, nil
}

// start starts the proxy, waits until it is ready, and returns how long that took.
func (p *proxy) start(ctx context.Context, flags ...string) (time.Duration, error) {
	cmd := p.command(context.WithoutCancel(ctx), append([]string{"serve"}, flags...)...)
	if p.group != "" {
		shell := p.command(context.WithoutCancel(ctx))
		shell.Path, shell.Args = "/bin/sh", append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, p.group}, cmd.Args...)
		cmd = shell
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	started := time.Now()
	server, err := rig.StartBy(startApart, cmd, p.path("modproxy.log"))
	if err != nil {
		return 0, err
	}
	p.server.Store(server)
	c := &conn{address: p.address, timeout: time.Second}
	defer c.close()
	err = server.Until(ctx, func() bool { return c.ask(ctx, "/-/readyz", "", false).status == http.StatusOK })
	return time.Since(started), err
}

// kill kills the proxy, with the programs that it has started.
func (p *proxy) kill() {
	if server := p.server.Swap(nil); server != nil {
		server.Kill()
	}
}

// stop ends the proxy as an operator does.
func (p *proxy) stop() error {
	if server := p.server.Swap(nil); server != nil {
		return server.Stop()
	}
	return nil
}

// signal sends a signal to the proxy.
func (p *proxy) signal(s os.Signal) error {
	server := p.server.Load()
	if server == nil {
		return os.ErrProcessDone
	}
	return server.Signal(s)
}

// close ends the proxy and removes its data.
func (p *proxy) close() error {
	p.kill()
	return errors.Join(p.up.close(), os.RemoveAll(p.dir))
}

// running starts a proxy, calls use with it, and ends it. In any case it then checks the data of the proxy.
func (w *world) running(
	ctx context.Context, atOnce int, more string, r *row, use func(*proxy, *watch) error, env ...string,
) (err error) {
	p, err := w.newProxy(ctx, atOnce, more)
	if err != nil {
		return err
	}
	p.env = env
	defer func() { err = errors.Join(err, p.close()) }()
	if _, err := p.start(ctx); err != nil {
		return err
	}
	seen := p.watch(r)
	defer seen.end()
	if err := use(p, seen); err != nil {
		return err
	}
	seen.end()
	r.wrong(p.complaints()...)
	if err := p.stop(); err != nil {
		r.wrong("the end of modproxy: " + err.Error())
	}
	return nil
}

// complaints are lines of the log about internal errors.
func (p *proxy) complaints() (list []string) {
	f, err := os.Open(p.path("modproxy.log"))
	if err != nil {
		return []string{err.Error()}
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		for _, sign := range []string{"panic:", "fatal error:", "DATA RACE"} {
			if len(list) < 4 && bytes.Contains(lines.Bytes(), []byte(sign)) {
				list = append(list, "the log says "+lines.Text())
			}
		}
	}
	return list
}

// kept returns the digests of all stored packages, by module and version.
func (p *proxy) kept(ctx context.Context) (map[string]string, error) {
	out, err := p.verb(ctx, "ls", "--json")
	if err != nil {
		return nil, err
	}
	is := map[string]string{}
	var list struct {
		Items []struct{ Module, Version, State, Digest string }
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	for _, one := range list.Items {
		if one.State == "kept" {
			is[one.Module+"@"+one.Version] = one.Digest
		}
	}
	return is, nil
}

// whole returns the damage of the stored data: every target that a client received must be stored, and all data must be right, including
// the ledger.
func (p *proxy) whole(ctx context.Context, given []*target) (wrong []string, err error) {
	if out, err := p.verb(ctx, "verify", "--read-data", "--json"); err != nil {
		var ended *exec.ExitError
		if !errors.As(err, &ended) {
			return nil, err
		}
		wrong = append(wrong, fmt.Sprintf("modproxy verify: %.1000s", out))
	}
	is, err := p.kept(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range given {
		if got := is[t.address()+"@"+t.version]; t.digest != "" && got != t.digest {
			wrong = append(wrong, fmt.Sprintf("%s %s is kept as %q, and a client was given %s", t.module, t.version, got, t.digest))
		}
	}
	for _, name := range []string{"tmp", "scratch"} {
		left, err := os.ReadDir(filepath.Join(p.data, name))
		if len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			wrong = append(wrong, fmt.Sprintf("left in %s: %d files, %v", name, len(left), err))
		}
	}
	return wrong, nil
}

// targets are new modules with versions of size bytes, for clients with tokens of the proxy.
func (p *proxy) targets(group string, modules, size, versions int) (all []*target) {
	for i := range modules {
		for v := range versions {
			all = append(all, &target{module: moduleName(group, i, size, versions), version: fmt.Sprintf("1.%d.0", v), token: p.tokens[len(all)%readers]})
		}
	}
	return all
}

// warm requests all targets once.
func (p *proxy) warm(ctx context.Context, targets []*target) error {
	_, err := p.each(ctx, 8, targets, func(c *conn, t *target) error { return t.first(ctx, c) })
	return err
}
