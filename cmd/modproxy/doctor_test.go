package main_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
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
	"github.com/modproxy/modproxy/egress/egresstest"
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
`

// needRoot ends a test that needs the rights of root.
func (p *patient) needRoot() {
	if os.Getuid() != 0 {
		rig.Missing(p.T, "this set-up needs root")
	}
}

// ill are set-ups with one problem each: its kind, an expression for the cause, and a part of the remedy.
var ill = []struct {
	name, kind, cause, remedy string
	make                      func(p *patient)
}{
	{"unknown key", "configuration", `unknown key "cache\.frehs"`, "did you mean cache.fresh?", func(p *patient) { p.keys["cache"] = "{frehs: 5m}" }},
	{"old key", "configuration_doubtful", "policy.contact is the old name", "modproxy config", func(p *patient) { p.keys["policy"] = "{contact: team}" }},

	{"data is a file", "data_refused", "is not a directory", "--data", func(p *patient) { p.write("data", "") }},
	{"another user", "data_unwritable", "permission denied; it belongs to root", "as the owner", func(p *patient) {
		p.needRoot()
		p.must(os.Mkdir(p.path("data"), 0o755))
		for dir := p.dir; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			p.must(os.Chmod(dir, 0o755))
		}
		p.must(os.Chmod(filepath.Dir(filepath.Dir(built)), 0o755), os.Chmod(filepath.Dir(built), 0o755))
		p.user = 65534
	}},
	{"file of root", "data_owner", `index\.db belongs to (nobody|user 65534), and the directory to root`, "chown", func(p *patient) {
		p.needRoot()
		p.stored()
		p.must(os.Chown(p.path("data", "index.db"), 65534, 65534))
	}},
	{"full disk", "disk_full", `^0B of 1\.0MiB are free`, "modproxy gc --max-size", func(p *patient) {
		p.must(os.Mkdir(p.path("data"), 0o700))
		p.mounts("mount -t tmpfs -o size=1m none data\nhead -c 2m /dev/zero >data/tmp 2>/dev/null || true")
	}},
	{"no inode", "inodes_full", "no free inode", "df -i", func(p *patient) {
		p.must(os.Mkdir(p.path("data"), 0o700))
		p.mounts("mount -t tmpfs -o size=100m,nr_inodes=2 none data\n: >data/lock")
	}},
	{"read-only disk", "data_read_only", "stored packages are served", "offline: true", func(p *patient) {
		p.stored()
		p.mounts("mount --bind data data\nmount -o remount,bind,ro data")
	}},
	{"cache beyond the disk", "cache_too_large", `cache\.max_size is 900TiB`, "cache.max_size", func(p *patient) { p.keys["cache"] = "{max_size: 900TiB}" }},
	{"unbounded cache", "cache_unbounded", "packages fill the disk", "50GiB", func(p *patient) {
		p.keys["trusted_proxies"], p.keys["anonymous"] = "[10.0.0.1]", "true"
	}},
	{"damaged index", "index_damaged", "the index is damaged", "modproxy rebuild", func(p *patient) {
		p.stored()
		p.damage("index.db", 0, strings.Repeat("x", 16<<10))
	}},
	{"lost index", "index_damaged", "the index is missing", "modproxy rebuild", func(p *patient) {
		p.stored()
		p.must(os.Remove(p.path("data", "index.db")))
	}},
	{"damaged ledger", "ledger_damaged", "the ledger is damaged", "restore the backup", func(p *patient) {
		p.stored()
		p.damage("ledger/log", 40, "xxxx")
	}},
	{"lost ledger", "ledger_missing", "packages are stored", "restore the backup", func(p *patient) {
		p.stored()
		p.must(os.RemoveAll(p.path("data", "ledger")))
	}},
	{"offline and empty", "offline_empty", "does not exist", "modproxy import", func(p *patient) { p.keys["offline"] = "true" }},
	{"index damaged while modproxy runs", "not_ready", "503", "log of the proxy", func(p *patient) {
		p.stored()
		url := p.serve()
		p.damage("index.db", 2*4096, strings.Repeat("x", 6*4096))
		rig.Get(p.Context(), url+"/"+p.registry.Host+"/v1/modules/acme/network/aws/versions") // finds the damage
	}},

	{"damaged tokens", "tokens_damaged", "tokens.json", "restore the backup", func(p *patient) { p.write("data/auth/tokens.json", "{}") }},
	{"no token", "no_token", "auth.required is true", "modproxy token create", func(p *patient) { p.keys["auth"] = "{required: true}" }},

	{"no git", "git_missing", "no directory in PATH has git", "install git", func(p *patient) { p.env["PATH"] = p.path("bin") }},
	{"git without mode x", "git_missing", `bin/git cannot be executed: its mode is -rw-r--r--`, "install git", func(p *patient) { p.gitIs(0o644, "") }},
	{"old git", "git_unusable", `version 2\.30: want 2\.31`, "git 2.31", func(p *patient) { p.gitIs(0o755, "echo git version 2.30.2") }},
	{"few open files", "open_files", "the limit of open files is 200", "ulimit -n", func(p *patient) { p.mounts("ulimit -n 200") }},
	{"clock", "clock", `^it is (10m0s|9m59s|10m1s) behind that of 127`, "NTP", func(p *patient) {
		url := p.server(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotFound)
		})
		host := strings.TrimPrefix(url, "https://")
		p.keys["upstreams"] = fmt.Sprintf("[{host: %q, modules: %s/v1/modules/}]", host, url)
	}},

	{"port in use", "port_in_use", "address already in use", "end that program", func(p *patient) {
		l, err := net.Listen("tcp", p.keys["listen"])
		p.must(err)
		p.Cleanup(func() { l.Close() })
	}},
	{"foreign address", "listen_address", "cannot assign requested address", "an address of this machine", func(p *patient) {
		p.keys["listen"], p.keys["anonymous"], p.keys["cache"] = "192.0.2.1:8080", "true", "{max_size: 1GiB}"
	}},
	{"every address, without a URL", "public_url_missing", "modproxy listens on :0", "set public_url", func(p *patient) {
		p.keys["listen"], p.keys["anonymous"], p.keys["cache"] = `":0"`, "true", "{max_size: 1GiB}"
	}},
	{"unencrypted", "unencrypted", "clients need a token", "tls.cert_file", func(p *patient) {
		p.keys["public_url"], p.keys["cache"] = "http://modules.corp.test:8080", "{max_size: 1GiB}"
		p.token("ci", "*")
		p.names(map[string]string{"modules.corp.test": p.address})
	}},

	{"expired certificate", "certificate_expired", `the certificate expired at 20`, "renew it", func(p *patient) { p.tls(p.issue(-48*time.Hour, -time.Hour, p.address)) }},
	{"early certificate", "certificate_early", "is not valid before", "clock", func(p *patient) { p.tls(p.issue(time.Hour, 720*time.Hour, p.address)) }},
	{"certificate near its end", "certificate_expires", "expires at", "renew it", func(p *patient) { p.tls(p.issue(-time.Hour, 48*time.Hour, p.address)) }},
	{"certificate of another name", "certificate_name", `it is for other\.test, and not for 127`, "the name in the URL", func(p *patient) { p.tls(p.issue(-time.Hour, 720*time.Hour, "other.test")) }},
	{"incomplete chain", "certificate_incomplete", "ends at the issuer CN=doctor intermediate", "append the missing intermediate", func(p *patient) {
		chain, key := p.chain(p.address)
		p.tls(chain[0], key)
	}},
	{"incomplete chain of a reverse proxy", "certificate_incomplete", "ends at the issuer CN=doctor intermediate", "append the missing intermediate", func(p *patient) {
		p.keys["public_url"] = p.serveChain(1)
	}},
	{"self-signed", "certificate_untrusted", "self-signed", "SSL_CERT_FILE", func(p *patient) { p.tls(p.selfSigned(p.address)) }},
	{"another key", "certificate_files", "private key does not match", "tls.key_file", func(p *patient) {
		cert, _ := p.issue(-time.Hour, 720*time.Hour, p.address)
		_, key := p.issue(-time.Hour, 720*time.Hour, p.address)
		p.tls(cert, key)
	}},
	{"public name unknown", "name_unresolved", "no such host", "DNS", func(p *patient) {
		p.keys["public_url"], p.keys["anonymous"], p.keys["cache"] = "https://modules.corp.test", "true", "{max_size: 1GiB}"
		p.names(nil)
	}},
	{"reverse proxy leads elsewhere", "url_other", "404 Not Found, and not that of modproxy", "reverse proxy", func(p *patient) {
		p.keys["public_url"] = p.server(http.NotFound)
		p.serve()
	}},
	{"reverse proxy is down", "url_unreachable", "connection refused", "firewall", func(p *patient) {
		p.keys["public_url"] = "http://" + p.address + ":1"
		p.serve()
	}},

	{"not a proxy", "proxy_variable", "HTTPS_PROXY: want the URL of a proxy", "http://host:port", func(p *patient) { p.env["HTTPS_PROXY"] = "ftp://" + doctorSecret + "@x" }},
	{"two proxies", "proxy_conflict", "https_proxy has another value", "unset one", func(p *patient) {
		p.env["HTTPS_PROXY"], p.env["https_proxy"] = "http://a:"+doctorSecret+"@127.0.0.1:1", "http://127.0.0.1:2"
	}},
	{"proxy is down", "proxy_unreachable", "connection refused", "start the proxy", func(p *patient) {
		p.env["HTTPS_PROXY"] = "http://a:" + doctorSecret + "@" + p.address + ":1"
		p.keys["upstreams"] = "[{host: registry.test}, {host: other.test}]"
	}},
	{"NO_PROXY without modproxy", "no_proxy", `internal address 10\.1\.2\.3`, "NO_PROXY", func(p *patient) {
		site := httptest.NewServer(&egresstest.Proxy{Dial: func(string) (net.Conn, error) { return nil, errors.New("not here") }})
		p.Cleanup(site.Close)
		p.env["HTTPS_PROXY"] = site.URL
		p.keys["public_url"], p.keys["anonymous"], p.keys["cache"] = "https://10.1.2.3", "true", "{max_size: 1GiB}"
	}},

	{"upstream unknown", "upstream_name", "no such host", "name server", func(p *patient) {
		p.keys["upstreams"] = "[{host: registry.corp.test}]"
		p.names(nil)
	}},
	{"inward address", "upstream_refused", `10\.1\.2\.3, for registry\.corp\.test:443, is private-use`, "add registry.corp.test to egress.allow", func(p *patient) {
		p.keys["upstreams"], p.keys["egress"] = "[{host: registry.corp.test}]", "{}"
		p.names(map[string]string{"registry.corp.test": "10.1.2.3"})
	}},
	{"upstream of a private authority", "upstream_certificate", "unknown authority", "egress.ca_file", func(p *patient) {
		p.keys["egress"] = "{allow: [127.0.0.0/8]}"
		p.env["SSL_CERT_FILE"] = p.write("none.pem", "")
	}},
	{"expired certificate of an upstream", "upstream_certificate", `expired .*the clock of this machine says 20`, "egress.ca_file", func(p *patient) {
		cert, key := p.issue(-48*time.Hour, -time.Hour, "127.0.0.1")
		p.keys["upstreams"] = fmt.Sprintf("[{host: %q}]", strings.TrimPrefix(p.serveTLS(cert, key, http.NotFound), "https://"))
	}},
	{"wrong token of an upstream", "upstream_credentials", "401 Unauthorized", "upstreams[].token", func(p *patient) {
		u := p.upstream(registrytest.Versions, registrytest.Knobs{Token: "right"})
		p.keys["upstreams"] = fmt.Sprintf("[{host: %q, token: %s}]", u.Host, doctorSecret)
	}},
	{"login page", "upstream_portal", "something else than application/json", "log in to the network", func(p *patient) {
		p.upstream(registrytest.All, registrytest.Knobs{Type: "text/html; charset=utf-8"})
	}},
	{"no registry", "upstream_no_modules", "is not a module registry", "upstreams[].modules", func(p *patient) {
		u := p.upstream(registrytest.Other, registrytest.Knobs{})
		p.must(u.LoadArchive(txtar.Parse([]byte("-- .well-known/terraform.json --\n{\"tfe.v2\": \"/api/v2/\"}\n"))))
	}},
	{"upstream is down", "upstream_unavailable", "connection refused", "state of the registry", func(p *patient) { p.upstream(registrytest.All, registrytest.Knobs{}).Down() }},
	{"upstream hangs", "upstream_unavailable", "", "state of the registry", func(p *patient) { p.upstream(registrytest.All, registrytest.Knobs{Hold: true}) }},

	{"client file of another form", "client_syntax", "invalid", "modproxy client-config", func(p *patient) { p.args = []string{"--client", p.write("client.tfrc", "host {{")} }},
	{"client reads another file", "client_ignored", "other.tfrc", "TF_CLI_CONFIG_FILE", func(p *patient) {
		p.client("")
		p.env["TF_CLI_CONFIG_FILE"] = p.write("other.tfrc", "")
	}},
	{"client without host blocks", "client_bypasses", "no host block", "modproxy client-config", func(p *patient) { p.args = []string{"--client", p.write("client.tfrc", "")} }},
	{"client of another proxy", "client_url", "this proxy is at http://127", "modproxy client-config", func(p *patient) {
		p.client("")
		text, err := os.ReadFile(p.path("client.tfrc"))
		p.must(err)
		p.write("client.tfrc", strings.ReplaceAll(string(text), p.keys["listen"], "localhost:1"))
	}},
	{"client without providers", "client_service", "providers.v1 is missing", "modproxy client-config", func(p *patient) {
		p.client("")
		text, err := os.ReadFile(p.path("client.tfrc"))
		p.must(err)
		p.write("client.tfrc", regexp.MustCompile(`(?m)^.*providers\.v1.*\n`).ReplaceAllString(string(text), ""))
	}},
	{"mirror without TLS", "client_mirror", "want https", "--providers mirror", func(p *patient) {
		p.client("provider_installation {\n  network_mirror { url = \"http://127.0.0.1:1/-/mirror/\" }\n}\n")
	}},
	{"client without a token", "client_no_token", "no token was sent", "credentials", func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.token("ci", "*")
		p.client("")
	}},
	{"wrong token", "client_token", "is not known, has expired or was revoked", "modproxy token create", func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.token("ci", "*")
		p.client(p.credentials(doctorSecret))
	}},
	{"revoked token", "client_token", "was revoked on 20", "modproxy token create", func(p *patient) {
		p.keys["auth"] = "{required: true}"
		token := p.token("ci", "*")
		p.token("other", "*")
		p.modproxy("token", "revoke", "ci")
		p.client(p.credentials(token))
	}},
	{"token of another scope", "client_scope", "has no scope of the host", "--scope '127", func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.client(p.credentials(p.token("ci", "registry.test/*")))
	}},
	{"developer, and modproxy is down", "url_unreachable", "connection refused", "check that modproxy runs", func(p *patient) {
		p.client("")
		p.noConfig = true
	}},
}

// doctorSecret is a secret that doctor must not print.
const doctorSecret = "hunter2-hunter2"

// sound are set-ups without a problem.
var sound = map[string]func(p *patient){
	"nothing configured, behind the proxy of a site": func(p *patient) {
		u, err := registrytest.StartArchive(txtar.Parse([]byte(doctorFixture)), registrytest.Options{Names: []string{"registry.terraform.io", "registry.opentofu.org"}})
		p.must(err)
		p.Cleanup(func() { u.Close() })
		site := httptest.NewServer(&egresstest.Proxy{Dial: func(string) (net.Conn, error) { return net.Dial("tcp", u.Host) }})
		p.Cleanup(site.Close)
		p.env["HTTPS_PROXY"] = site.URL
		p.keys = map[string]string{"listen": p.keys["listen"], "data": p.keys["data"], "egress": "{proxy_names: true}"}
	},
	"a private authority, and modproxy runs": func(p *patient) {
		p.tls(p.issue(-time.Hour, 720*time.Hour, p.address))
		p.serve()
	},
	"a chain with its intermediate, behind a reverse proxy": func(p *patient) {
		p.keys["public_url"] = p.serveChain(2)
	},
	"offline, with data on a read-only disk": func(p *patient) {
		p.stored()
		p.keys["offline"] = "true"
		p.mounts("mount --bind data data\nmount -o remount,bind,ro data")
	},
	"stored packages, and modproxy runs": func(p *patient) {
		p.stored()
		p.serve()
	},
	"a client with a token": func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.client(p.credentials(p.token("ci", p.registry.Host+"/acme")))
	},
	"a registry of providers only": func(p *patient) {
		u := p.upstream(registrytest.Other, registrytest.Knobs{})
		p.must(u.LoadArchive(txtar.Parse([]byte("-- .well-known/terraform.json --\n{\"providers.v1\": \"/v1/providers/\"}\n"))))
	},
	"a developer with a token": func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.client(p.credentials(p.token("ci", p.registry.Host+"/acme")))
		p.noConfig = true
	},
}

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
