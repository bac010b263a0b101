package main_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/egress/egresstest"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

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
	{"another host of own modules", "modules_host_changed", `modules_host: modules\.example\.com is not the host .* records with that host: 1$`, "set modules_host: 127.0.0.1:", func(p *patient) {
		p.stored()
		upstreams := p.keys["upstreams"]
		p.keys["upstreams"], p.keys["modules_host"] = "[{host: registry.invalid}]", p.registry.Host // the record is then that of an own module
		p.keys["modules"] = `[{address: "corp/{name}/{system}", source: "git::` + p.registry.URL + `/corp/terraform-{system}-{name}.git"}]`
		p.modproxy("block", p.registry.Host+"/corp/vpc/aws", "--reason", "an open bucket", "--force") // records the host
		p.keys["upstreams"], p.keys["modules_host"] = upstreams, "modules.example.com"
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
	{"mirror unknown", "source_unreachable", "no such host", "correct sources", func(p *patient) {
		p.keys["sources"] = "[{from: github.com/acme/*, to: git.corp.test/mirrors/*}]"
		p.names(nil)
	}},
	{"mirror at an inward address", "source_unreachable", `10\.1\.2\.3, for registry\.corp\.test:443, is private-use`, "egress.allow", func(p *patient) {
		p.keys["sources"] = "[{from: github.com/acme/*, to: registry.corp.test/mirrors/*}]"
		p.names(map[string]string{"registry.corp.test": "10.1.2.3"})
	}},
	{"upstream hangs", "upstream_unavailable", "", "state of the registry", func(p *patient) { p.upstream(registrytest.All, registrytest.Knobs{Hold: true}) }},

	{"own modules at the address of the proxy, without a block for it", "modules_host", "the addresses of own modules begin with it", "a name of your own domain", func(p *patient) {
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git"`)
		delete(p.keys, "modules_host")
		p.keys["public_url"] = p.serveChain(2)
		p.client("")
		text, err := os.ReadFile(p.path("client.tfrc"))
		p.must(err)
		p.write("client.tfrc", string(text)[:strings.LastIndex(string(text), "\nhost ")])
	}},
	{"own modules recorded under another host", "modules_elsewhere", "modules of acme are recorded under it, and not under .* modules.corp.test", "set modules_host to 127", func(p *patient) {
		p.stored()
		p.own(p.upstream(registrytest.All, registrytest.Knobs{}), `address: acme/vpc/aws, source: "git::URL/corp/vpc.git"`)
	}},
	{"own modules without a credential", "modules_denied", `corp/vpc\.git: denied`, "cover modules.corp.test/corp/vpc/aws", func(p *patient) {
		u := p.upstream(registrytest.Git, registrytest.Knobs{Status: 401})
		p.own(u, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git"`, `address: "team/{name}/aws", source: "git::URL/team/{name}.git"`)
		p.keys["credentials"] = fmt.Sprintf("[{host: %q, username: modproxy, password: %s, scopes: [modules.corp.test/corp]}]", u.Host, doctorSecret)
	}},
	{"forge is down", "modules_unavailable", "connection refused", "state of the git server", func(p *patient) {
		u := registrytest.New(p.T, txtar.Parse([]byte(doctorFixture)))
		p.own(u, `address: "corp/{name}/aws", source: "git::URL/corp/{name}.git"`)
		u.Down()
	}},
	{"own modules of no repository", "modules_empty", `corp/none\.git: not found`, "correct modules[].source", func(p *patient) {
		p.own(p.registry, `address: corp/none/aws, source: "git::URL/corp/none.git"`, `address: "team/{name}/aws", source: "git::URL/team/{name}.git"`)
	}},
	{"own modules without versions", "modules_empty", `has 1 tags?, and no tag has the form aws/v\{version\}`, "modproxy modules check modules.corp.test/corp/vpc/aws", func(p *patient) {
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git", tags: "aws/v{version}"`)
	}},
	{"ambiguous tags", "modules_ambiguous", `^1\.0\.0: the tags "1\.0\.0" and "v1\.0\.0" name different commits`, "remove the wrong tag", func(p *patient) {
		p.own(p.registry, `address: corp/two/aws, source: "git::URL/corp/two.git"`)
	}},
	{"client without own modules", "client_bypasses", "the host block is missing for modules.corp.test", "modproxy client-config", func(p *patient) {
		p.client("")
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git"`)
	}},
	{"client with providers of own modules", "client_service", "own modules have no providers", "modproxy client-config", func(p *patient) {
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git"`)
		p.client("")
		text, err := os.ReadFile(p.path("client.tfrc"))
		p.must(err)
		p.write("client.tfrc", regexp.MustCompile(`"modules.v1" = .*`).ReplaceAllString(string(text), "$0\n    \"providers.v1\" = \"http://"+p.keys["listen"]+"/v1/providers/\""))
	}},

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
	"own modules, and a client": func(p *patient) {
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/vpc.git"`, `address: "team/{name}/aws", source: "git::URL/team/{name}.git"`)
		p.serve()
		p.client("")
	},
	"offline, with own modules": func(p *patient) {
		p.stored()
		p.own(p.registry, `address: corp/vpc/aws, source: "git::URL/corp/none.git"`)
		p.keys["offline"] = "true"
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
	"mirrors of forges": func(p *patient) {
		p.keys["sources"] = fmt.Sprintf("[{from: github.com/acme/*, to: %q}, {from: gitlab.com/acme/*, to: \"ssh://git@127.0.0.1:2222/*\"}]", p.registry.Host+"/mirrors/*")
		p.keys["credentials"] = fmt.Sprintf("[{host: 127.0.0.1, ssh_key_file: %q, known_hosts_file: %q}]", p.write("key", ""), p.write("known_hosts", ""))
	},
	"a developer with a token": func(p *patient) {
		p.keys["auth"] = "{required: true}"
		p.serve()
		p.client(p.credentials(p.token("ci", p.registry.Host+"/acme")))
		p.noConfig = true
	},
}
