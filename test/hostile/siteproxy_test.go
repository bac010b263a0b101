//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/modproxy/modproxy/egress/egresstest"
)

// onlyThere are names that the proxy of the site resolves, but not the world's name server.
var onlyThere = []string{"there.test", "git.there.test"}

// startSite starts the proxy of a site, and returns it and its URL.
func startSite(t *testing.T, scheme string) (*egresstest.Proxy, string) {
	t.Helper()
	site := &egresstest.Proxy{User: "site", Password: secretPassword, Dial: func(hostport string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(hostport); slices.Contains(onlyThere, host) {
			hostport = strangersAddress + ":443"
		}
		return net.Dial("tcp", hostport)
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	url := scheme + "://site:" + secretPassword + "@" + l.Addr().String()
	if strings.HasPrefix(scheme, "socks5") {
		go site.ServeSOCKS(l)
		return site, url
	}
	server := &http.Server{
		Handler: site, TLSConfig: &tls.Config{GetCertificate: certificateFor},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // HTTP/1.1 only
	}
	if scheme == "https" {
		go server.ServeTLS(l, "", "")
	} else {
		go server.Serve(l)
	}
	return site, url
}

// If all requests go through the proxy of a site, for archives and for git, this reaches no address that is forbidden otherwise: the proxy
// receives no such request. With http and socks5 the proxy is asked for addresses; with https, with its key, and socks5h for names.
func TestProxiesOfSites(t *testing.T) {
	schemes := []string{"http", "https", "socks5", "socks5h"}
	few := shorter(t, "proxies by https and socks5 only, and a tenth of the targets")
	if few {
		schemes = []string{"https", "socks5"}
	}
	for _, scheme := range schemes {
		site, url := startSite(t, scheme)
		byAddress := scheme == "http" || scheme == "socks5"
		variable := "HTTPS_PROXY="
		if strings.HasPrefix(scheme, "socks5") {
			variable = "ALL_PROXY="
		}
		p := startOwn(t, ordinary, variable+url, fmt.Sprintf("MODPROXY_EGRESS_PROXY_NAMES=%v", !byAddress))
		p.run(scheme+"-is-used", func(t *testing.T) { siteIsUsed(t, p, site, byAddress) })
		number := 0
		for name, target := range internalTargets {
			if number++; few && number%10 != 0 { // a different subset each time
				continue
			}
			p.run(scheme+"-"+name, func(t *testing.T) {
				host := located(target).host(t)
				p.refuse(t, module{host, "case", "site", "aws"}, "1.0.0", `not allowed|invalid|denied`)
				registry := host + ":443"
				if byAddress {
					registry = strangersAddress + ":443"
				}
				asked := site.Took()
				if len(asked) == 0 || slices.ContainsFunc(asked, func(s string) bool { return !strings.HasSuffix(s, " "+registry) }) {
					t.Errorf("the proxy was asked for %q; want %s only", asked, registry)
				}
			})
		}
	}
}

// siteIsUsed checks that all good requests go through the proxy. If it is asked for addresses, a name that only the proxy resolves cannot
// be reached, nor a name that has another address since.
func siteIsUsed(t *testing.T, p *proxy, site *egresstest.Proxy, byAddress bool) {
	asked := strings.Join(site.Took(), " ") // the warm-up has installed from git and an archive
	for _, name := range []string{"up-a.test", "src.test"} {
		want := name + ":443"
		if byAddress {
			addresses, _ := world.names.lookUp(name, false)
			want = addresses[0].String() + ":443"
		}
		if !strings.Contains(asked, want) {
			t.Errorf("the proxy was not asked for %s: %s", want, asked)
		}
	}
	pack, commit := goodPack()
	strangerAt(t, onlyThere[0], bytesOf(tarGz(t, plainFile)))
	strangerAt(t, onlyThere[1], served(pack, commit))
	for name, location := range map[string]string{"archive": "https://" + onlyThere[0] + "/x.tar.gz", "git": "git::https://" + onlyThere[1] + "/x.git?ref=v1"} {
		m := module{located(location).host(t), "case", name, "aws"}
		if byAddress {
			p.refuse(t, m, "1.0.0", `no such host.*(socks5h|egress.proxy_names)`)
		} else if a := p.install(m, "1.0.0"); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.Status, a.Said())
		}
	}
	if byAddress {
		strangerAt(t, "rebind9.evil.test", bytesOf(tarGz(t, plainFile)))
		world.names.rebind("rebind9.evil.test", strangersAddress, "10.0.0.5")
		p.install(module{located("https://rebind9.evil.test/x.tar.gz").host(t), "case", "rebind", "aws"}, "1.0.0")
		if asked := strings.Join(site.Took(), " "); strings.Contains(asked, "10.0.0.5") || strings.Contains(asked, "rebind") {
			t.Errorf("the proxy was asked for %s", asked)
		}
	}
	site.Took()
}

// An invalid proxy is reported as such, and no request bypasses it.
func TestProxiesThatAreNone(t *testing.T) {
	for _, setting := range []string{
		"HTTPS_PROXY=ftp://site:" + secretPassword + "@127.0.0.1:21", "ALL_PROXY=socks4://127.0.0.1:1080",
		"HTTPS_PROXY=http://site:" + secretPassword + "@[", "HTTP_PROXY=https://127.0.0.1/" + secretPassword,
	} {
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		cmd := exec.CommandContext(ctx, os.Getenv(rig.ProgramVariable), "serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), setting}
		out, err := cmd.CombinedOutput()
		name, _, _ := strings.Cut(setting, "=")
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 || !bytes.Contains(out, []byte(name+": ")) || !bytes.Contains(out, []byte("want the URL of a proxy")) {
			t.Fatalf("%s: %v\n%s", name, err, out) // the other settings would take as long
		}
		if secret := contains(out); secret != "" {
			t.Errorf("%s: what it says has the secret %s: %s", name, secret, out)
		}
	}
	world.touches.check(t)
}
