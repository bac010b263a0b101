package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "embed"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/egress/egresstest"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// token is the placeholder for a token in docs/how-to/other-tools.md. If the section of a client contains it, modproxy
// requires a token.
const token = "mp_…"

// own is the name of the proxy in docs/how-to/other-tools.md and in these tests.
const own = "modules.example.com"

// public are the hosts whose names lead clients to the proxy.
var public = []string{"registry.terraform.io", "registry.opentofu.org", "api.opentofu.org"}

//go:embed testdata/upstream.txtar
var upstream []byte

// A world contains the replacements of the public registries, and a built modproxy.
type world struct {
	dir      string
	kept     bool // no registry describes modules, and modproxy has cached a package of each version
	upstream *registrytest.Upstream
	behind   *httptest.Server // the proxy through which modproxy reaches registries
	program  string           // modproxy
	document document
}

func newWorld(ctx context.Context, kept bool) (w *world, err error) {
	w = &world{kept: kept}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.document, err = readDocument(); err != nil {
		return w, err
	}
	if w.dir, err = os.MkdirTemp("", "clients-"); err != nil {
		return w, err
	}
	fixture := txtar.Parse(upstream)
	if kept {
		fixture.Files = slices.DeleteFunc(fixture.Files, func(f txtar.File) bool {
			top, _, _ := strings.Cut(f.Name, "/")
			return top == "v1" || top == "v2" || top == "registry"
		})
	}
	w.upstream, err = registrytest.StartArchive(fixture, registrytest.Options{Names: public})
	if err != nil {
		return w, err
	}
	w.behind = leadTo(w.upstream.Host)
	if err := registrytest.CA().WriteFiles(w.dir, append(public, own, "localhost", "127.0.0.1")...); err != nil {
		return w, err
	}
	if err := os.WriteFile(filepath.Join(w.dir, "modproxy.yaml"), []byte(w.document[""].blocks[0].text), 0o600); err != nil {
		return w, err
	}
	w.program, err = rig.Program(ctx, w.dir)
	return w, err
}

// String says which service describes modules.
func (w *world) String() string {
	if w.kept {
		return "by modproxy"
	}
	return "by the registry"
}

// leadTo starts a proxy of a site that connects every request to one address.
func leadTo(address string) *httptest.Server {
	return httptest.NewServer(&egresstest.Proxy{Dial: func(string) (net.Conn, error) { return net.Dial("tcp", address) }})
}

func (w *world) close() error {
	if w.behind != nil {
		w.behind.CloseClientConnections() // a connection in use is not idle
	}
	var err error
	if w.upstream != nil {
		err = w.upstream.Close()
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// run runs a client with a modproxy whose cache is empty, and returns its requests to modproxy. An anonymous client has
// no token, even if its section has one.
func (w *world) run(ctx context.Context, c *client, program string, anonymous bool) (asked string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s := &session{world: w, client: c, program: program}
	if s.dir, err = os.MkdirTemp(w.dir, "run-"); err != nil {
		return "", err
	}
	private := w.document.has(c.name, token) && !anonymous
	proxy, err := rig.Start(w.modproxy(s.dir, private, "serve"), filepath.Join(s.dir, "modproxy.log"))
	if err != nil {
		return "", err
	}
	url, err := proxy.URL(ctx)
	if err == nil && private {
		var out []byte
		out, err = w.modproxy(s.dir, private, "token", "create", "client", "--scope", "*").Output()
		s.token = strings.TrimSpace(string(out))
	}
	if err == nil && w.kept {
		const m = "registry.terraform.io/acme/network/aws@"
		_, err = output(w.modproxy(s.dir, private, "mirror", m+"1.0.0", m+"1.1.0", m+"2.0.0"))
	}
	if err == nil {
		s.site = leadTo(strings.TrimPrefix(url, "https://"))
		defer s.site.CloseClientConnections()
		err = c.run(ctx, s)
	}
	if stopped := proxy.Stop(); stopped != nil {
		return "", errors.Join(err, stopped) // the log is complete after the end
	}
	requests, wrong := c.requestsIn(proxy.Log())
	return requests, errors.Join(err, wrong, w.document.unused(c.name, s.taken))
}

// modproxy returns a command of modproxy, with the first configuration in docs/how-to/other-tools.md and its data in a
// directory. A private one has no anonymous clients.
func (w *world) modproxy(dir string, private bool, args ...string) *exec.Cmd {
	cmd := exec.Command(w.program, args...)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + w.dir, "HTTPS_PROXY=" + w.behind.URL,
		"MODPROXY_CONFIG=modproxy.yaml", "MODPROXY_LISTEN=127.0.0.1:0", "MODPROXY_DATA=" + filepath.Join(dir, "data"),
		"MODPROXY_TLS_CERT_FILE=cert.pem", "MODPROXY_TLS_KEY_FILE=key.pem",
		"MODPROXY_EGRESS_ALLOW=127.0.0.0/8", "MODPROXY_EGRESS_PROXY_NAMES=true", "MODPROXY_EGRESS_CA_FILE=ca.pem",
	}
	if private {
		cmd.Env = append(cmd.Env, "MODPROXY_ANONYMOUS=false")
	}
	return cmd
}

// requestsIn returns the kinds of requests in a log, each with its number. It returns an error for each error answer of
// modproxy.
func (c *client) requestsIn(log []byte) (string, error) {
	count := map[string]int{}
	var wrong []error
	for line := range bytes.Lines(log) {
		var event struct {
			Kind, Method, Path, Error string
			Status                    int
		}
		if json.Unmarshal(line, &event) != nil || event.Path == "" {
			continue
		}
		kind := event.Kind
		if kind == "" {
			kind = event.Path
		}
		count[kind]++
		if event.Status >= 400 && (event.Status != 401 || kind != c.without) {
			wrong = append(wrong, fmt.Errorf("%s %s: %d %s", event.Method, event.Path, event.Status, event.Error))
		}
	}
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		all = append(all, fmt.Sprintf("%s %d", kind, count[kind]))
	}
	return strings.Join(all, ", "), errors.Join(wrong...)
}

// A session is one run of a client.
type session struct {
	*world
	client  *client
	program string
	dir     string
	site    *httptest.Server // the proxy that leads to modproxy
	token   string           // token that modproxy requires; "" if it requires none
	taken   map[int]bool     // indexes of the used blocks of the section
}

// block returns the nth block of a language in the client's section, starting at 0, with the token. Users set the same
// text.
func (s *session) block(language string, n int) string {
	if s.taken == nil {
		s.taken = map[int]bool{}
	}
	for i, b := range s.document[s.client.name].blocks {
		if b.language == language {
			if n == 0 {
				s.taken[i] = true
				return strings.ReplaceAll(b.text, token, s.token)
			}
			n--
		}
	}
	return ""
}

// write writes a file for the run, and returns its name.
func (s *session) write(name, text string) (string, error) {
	name = filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return "", err
	}
	return name, os.WriteFile(name, []byte(text), 0o600)
}

// command returns a command that reaches every host through the site's proxy and trusts its authority. settings are
// lines of "export NAME=VALUE".
func (s *session) command(ctx context.Context, dir, settings, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = filepath.Join(s.dir, dir), 5*time.Second
	ca := filepath.Join(s.world.dir, "ca.pem")
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "TMPDIR=" + s.dir, "HTTPS_PROXY=" + s.site.URL,
		"SSL_CERT_FILE=" + ca, "NODE_EXTRA_CA_CERTS=" + ca, "CHECKPOINT_DISABLE=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
	}
	for line := range strings.Lines(settings) {
		if setting, ok := strings.CutPrefix(strings.TrimSpace(line), "export "); ok {
			cmd.Env = append(cmd.Env, strings.ReplaceAll(setting, "~", s.dir))
		}
	}
	return cmd
}

// output runs a command and returns its output.
func output(cmd *exec.Cmd) (string, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", filepath.Base(cmd.Path), err, out[max(0, len(out)-2000):])
	}
	return string(out), nil
}
