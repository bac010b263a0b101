package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/modproxy/modproxy/doctor"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// patient is a set-up that doctor examines. Each has an address of its own, so that ports are free.
type patient struct {
	*testing.T
	dir, address string
	registry     *registrytest.Upstream // a sound one; it must not be changed
	keys         map[string]string      // of the configuration, in YAML
	env          map[string]string
	args         []string // of doctor, beside --config
	noConfig     bool
	before       string // lines of a shell in mount namespace, before doctor; empty: no namespace
	user         uint32 // that runs doctor
}

// must ends the test of a patient.
func (p *patient) must(errs ...error) {
	p.Helper()
	if err := errors.Join(errs...); err != nil {
		p.Fatal(err)
	}
}

func (p *patient) path(elem ...string) string {
	return filepath.Join(append([]string{p.dir}, elem...)...)
}

func (p *patient) write(name, text string) string {
	p.must(os.MkdirAll(filepath.Dir(p.path(name)), 0o755), os.WriteFile(p.path(name), []byte(text), 0o644))
	return p.path(name)
}

// newPatient returns a sound set-up.
func newPatient(t *testing.T, number int, registry *registrytest.Upstream) *patient {
	p := &patient{T: t, dir: t.TempDir(), registry: registry, address: fmt.Sprintf("127.%d.%d.1", 20+os.Getpid()%200, number)}
	p.keys = map[string]string{
		"listen": p.address + ":8080", "data": strconv.Quote(p.path("data")),
		"upstreams": "[{host: " + fmt.Sprintf("%q", registry.Host) + "}]",
		"egress":    "{allow: [127.0.0.0/8], ca_file: " + registry.CAFile + "}",
	}
	p.env = map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": p.dir, "SSL_CERT_FILE": registry.CAFile, "GORACE": os.Getenv("GORACE"), "TMPDIR": p.dir,
	}
	return p
}

// command returns a command of modproxy in the environment of the patient.
func (p *patient) command(args ...string) *exec.Cmd {
	cmd := exec.Command(built, args...)
	cmd.Dir = p.dir
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		cmd.Env = append(cmd.Env, name+"="+p.env[name])
	}
	return cmd
}

func (p *patient) configure() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.keys)) {
		fmt.Fprintf(&text, "%s: %s\n", name, p.keys[name])
	}
	return p.write("modproxy.yaml", text.String())
}

// modproxy runs a verb with the configuration of the patient, and returns its output.
func (p *patient) modproxy(args ...string) string {
	p.Helper()
	out, err := p.command(append(args, "--config", p.configure())...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		p.Fatalf("modproxy %q: %v\n%s", args, err, exit.Stderr)
	}
	p.must(err)
	return strings.TrimSpace(string(out))
}

// token creates a token, and the data directory if it does not exist.
func (p *patient) token(name, scope string) string {
	p.must(os.MkdirAll(p.path("data"), 0o700))
	return p.modproxy("token", "create", name, "--scope", scope)
}

// serve runs modproxy until the end of the test, and returns its URL.
func (p *patient) serve() string {
	proxy, err := rig.Start(p.command("serve", "--config", p.configure()), p.path("modproxy.log"))
	p.must(err)
	p.Cleanup(proxy.Kill)
	url, err := proxy.URL(p.Context())
	p.must(err)
	return url
}

// stored copies a data directory with one package.
func (p *patient) stored() {
	out, err := exec.Command("cp", "-a", storedData(p), p.path("data")).CombinedOutput()
	if err != nil {
		p.Fatalf("cp: %v\n%s", err, out)
	}
}

var stored struct {
	sync.Mutex
	dir string
}

// storedData returns a data directory in which modproxy has stored a package. The first call makes it.
func storedData(p *patient) string {
	stored.Lock()
	defer stored.Unlock()
	if stored.dir != "" {
		return stored.dir
	}
	dir, err := os.MkdirTemp("", "doctor-")
	p.must(err)
	q := *p
	q.keys = maps.Clone(p.keys)
	q.keys["data"], q.keys["listen"] = dir, p.address+":8079"
	proxy, err := rig.Start(q.command("serve", "--config", q.configure()), p.path("stored.log"))
	p.must(err)
	defer proxy.Kill()
	url, err := proxy.URL(p.Context())
	p.must(err)
	base := url + "/" + p.registry.Host + "/v1/modules/acme/network/aws/1.0.0/"
	answer := rig.Get(p.Context(), base+"download")
	at, err := neturl.Parse(base + "download")
	p.must(err)
	at, err = at.Parse(answer.Header.Get("X-Terraform-Get"))
	p.must(err)
	if answer = rig.Get(p.Context(), at.String()); answer.Status != http.StatusOK {
		p.Fatal(at, answer)
	}
	p.must(proxy.Stop())
	stored.dir = dir
	return dir
}

// client writes the CLI configuration that modproxy prints, with more lines, and lets doctor examine it.
func (p *patient) client(more string) {
	text := p.modproxy("client-config")
	p.args = append(p.args, "--client", p.write("client.tfrc", text+"\n"+more))
}

func (p *patient) credentials(token string) string {
	return fmt.Sprintf("credentials %q {\n  token = %q\n}\n", p.registry.Host, token)
}

// tls writes a certificate for names and its key, and configures them with a public_url.
func (p *patient) tls(cert, key []byte) {
	p.write("cert.pem", string(cert))
	p.write("key.pem", string(key))
	p.keys["tls"] = fmt.Sprintf("{cert_file: %q, key_file: %q}", p.path("cert.pem"), p.path("key.pem"))
	p.keys["public_url"] = "https://" + p.keys["listen"]
}

func (p *patient) issue(from, until time.Duration, names ...string) (cert, key []byte) {
	cert, key, err := registrytest.CA().IssueFor(from, until, names...)
	p.must(err)
	return cert, key
}

// names serves names to processes in a mount namespace, by a name server of the patient.
func (p *patient) names(all map[string]string) {
	server, err := rig.ServeNames(p.address, func(name string, six bool) ([]netip.Addr, dnsmessage.RCode) {
		ip, err := netip.ParseAddr(all[strings.TrimSuffix(name, ".")])
		switch {
		case err != nil:
			return nil, dnsmessage.RCodeNameError
		case ip.Is6() != six:
			return nil, dnsmessage.RCodeSuccess
		}
		return []netip.Addr{ip}, dnsmessage.RCodeSuccess
	})
	if err != nil {
		rig.Missing(p.T, "a name server needs port 53: %v", err)
	}
	p.Cleanup(func() { server.Close() })
	p.before = "mount --bind " + p.write("resolv.conf", "nameserver "+p.address+"\n") + " /etc/resolv.conf"
}

// upstream starts a registry that is not sound.
func (p *patient) upstream(kind registrytest.Kind, k registrytest.Knobs) *registrytest.Upstream {
	u := registrytest.New(p.T, txtar.Parse([]byte(doctorFixture)))
	u.Set(kind, k)
	p.keys["upstreams"] = fmt.Sprintf("[{host: %q}]", u.Host)
	p.keys["egress"] = "{allow: [127.0.0.0/8], ca_file: " + u.CAFile + "}"
	return u
}

// gitIs puts a git in PATH.
func (p *patient) gitIs(mode os.FileMode, script string) {
	p.must(os.MkdirAll(p.path("bin"), 0o755), os.WriteFile(p.path("bin", "git"), []byte("#!/bin/sh\n"+script+"\n"), mode))
	p.env["PATH"] = p.path("bin")
}

// server starts an HTTPS server of another program, and returns its URL.
func (p *patient) server(serve http.HandlerFunc) string {
	cert, key := p.issue(-time.Hour, 720*time.Hour, "127.0.0.1")
	return p.serveTLS(cert, key, serve)
}

// damage overwrites bytes of a file of the data directory.
func (p *patient) damage(name string, at int64, text string) {
	f, err := os.OpenFile(p.path("data", name), os.O_WRONLY, 0)
	p.must(err)
	_, err = f.WriteAt([]byte(text), at)
	p.must(err, f.Close())
}

// mounts lets doctor run in a mount namespace after lines of a shell.
func (p *patient) mounts(lines string) { p.before = lines }

// examined is the output of doctor with --json.
type examined struct {
	Items   []doctor.Finding
	Summary struct{ Checked, Skipped []string }
}

// examine runs doctor, and returns its findings and exit code.
func (p *patient) examine() (out examined, code int, said string) {
	p.Helper()
	args := append([]string{"doctor", "--json"}, p.args...)
	if !p.noConfig {
		args = append(args, "--config", p.configure())
	}
	cmd := p.command(args...)
	if p.before != "" {
		unshare := []string{"--mount"}
		if os.Getuid() != 0 {
			unshare = append(unshare, "--map-root-user")
		}
		if out, err := exec.Command("unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
			rig.Missing(p.T, "no mount namespace: %v %s", err, out)
		}
		cmd.Args = append(append([]string{"unshare"}, unshare...), "sh", "-ec", p.before+"\nexec \"$0\" \"$@\"", built)
		cmd.Args = append(cmd.Args, args...)
		path, err := exec.LookPath("unshare")
		p.must(err)
		cmd.Path = path
	}
	if p.user != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.user, Gid: p.user}}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		p.Fatal(err)
	}
	said = stdout.String() + stderr.String()
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		p.Fatalf("%v\n%s", err, said)
	}
	return out, cmd.ProcessState.ExitCode(), fmt.Sprintf("%s\n%v", said, exit)
}

const doctorFixture = `
-- modules/acme/network/aws/1.0.0/main.tf --
output "v" { value = 1 }
-- repos/corp/vpc.git@v1.0.0/main.tf --
output "v" { value = 1 }
-- repos/corp/two.git@1.0.0/main.tf --
output "v" { value = 1 }
-- repos/corp/two.git@v1.0.0/main.tf --
output "v" { value = 2 }
-- repos/corp/untagged.git@main/main.tf --
output "v" { value = 1 }
`

// own maps own modules to repositories of a registry, at modules.corp.test. Each line is an entry without its braces, with URL for that of
// the registry.
func (p *patient) own(u *registrytest.Upstream, lines ...string) {
	p.keys["modules_host"] = "modules.corp.test"
	p.keys["modules"] = "[{" + strings.ReplaceAll(strings.Join(lines, "}, {"), "URL", u.URL) + "}]"
}

// needRoot ends a test that needs the rights of root.
func (p *patient) needRoot() {
	if os.Getuid() != 0 {
		rig.Missing(p.T, "this set-up needs root")
	}
}

// doctorSecret is a secret that doctor must not print.
const doctorSecret = "hunter2-hunter2"

// TestDoctor examines real set-ups with the built program.
func TestDoctor(t *testing.T) {
	build(t)
	registry := registrytest.New(t, txtar.Parse([]byte(doctorFixture)))
	t.Cleanup(func() { os.RemoveAll(stored.dir) })
	kinds := map[string]bool{}
	t.Run("set-ups", func(t *testing.T) {
		for i, c := range ill {
			kinds[c.kind] = true
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				p := newPatient(t, i, registry)
				c.make(p)
				out, code, said := p.examine()
				if len(out.Items) != 1 || code != 1 {
					t.Fatalf("exit code %d; want 1, and one finding %s\n%s", code, c.kind, said)
				}
				f := out.Items[0]
				if f.Kind != c.kind || !regexp.MustCompile(c.cause).MatchString(f.Cause) || !strings.Contains(f.Remedy, c.remedy) {
					t.Errorf("got %+v\nwant %s, because of %s; remedy: %s", f, c.kind, c.cause, c.remedy)
				}
				if strings.Contains(said, doctorSecret) {
					t.Errorf("it shows a secret: %s", said)
				}
			})
		}
		for i, name := range slices.Sorted(maps.Keys(sound)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPatient(t, len(ill)+i, registry)
				sound[name](p)
				if out, code, said := p.examine(); len(out.Items) != 0 || code != 0 || len(out.Summary.Checked) == 0 || len(out.Summary.Skipped) != 0 {
					t.Errorf("exit code %d; want 0, and no finding\n%s", code, said)
				}
			})
		}
	})
	for _, k := range doctor.Kinds() {
		if !kinds[k.Name] && !slices.Contains([]string{
			"data_network",  // needs a network file system
			"listen_denied", // many machines allow all ports
			"unfinished",    // needs a disk that does not answer
		}, k.Name) {
			t.Errorf("no set-up has a finding %s", k.Name)
		}
	}
}
