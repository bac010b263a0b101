//go:build linux

package hostile_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The vaults are registries and forges with a configured token and password. They try to make modproxy show these to other hosts.
const vaults = 250

func vault(i int) string { return fmt.Sprintf("v%d.vault.evil.test", i) }

// trusted is ordinary with the credentials for the vaults.
var trusted = func() string {
	var upstreams, credentials strings.Builder
	for i := range vaults {
		fmt.Fprintf(&upstreams, "  - {host: %s, token_file: TOKEN}\n", vault(i))
		fmt.Fprintf(&credentials, "  - {host: %s, username: robot, password_file: PASSWORD}\n", vault(i))
	}
	return strings.NewReplacer("routes:\n", upstreams.String()+"routes:\n", "credentials:\n", "credentials:\n"+credentials.String()).Replace(ordinary)
}()

// isVault reports whether a host is one of the vaults. A lookalike is not.
var isVault = regexp.MustCompile(`^v\d+\.vault\.evil\.test$`).MatchString

// shown returns the credentials in a request.
func (s sighting) shown() string {
	var all []string
	for name, values := range s.Header {
		bearing := slices.Contains([]string{"Authorization", "Proxy-Authorization", "Cookie", "Private-Token"}, name)
		if text := strings.Join(values, " "); bearing || contains([]byte(text)) != "" {
			all = append(all, text)
		}
	}
	if contains([]byte(s.URI)) != "" {
		all = append(all, s.URI)
	}
	return strings.Join(all, " ")
}

// checkShown checks that only the vaults, by https at their own port, received credentials since the first before requests.
func checkShown(t *testing.T, before int) {
	t.Helper()
	for _, s := range world.strangers.at("")[before:] {
		if s.Scheme == "https" && isVault(s.Host) && s.Port == "443" {
			continue
		}
		if shown := s.shown(); shown != "" {
			t.Errorf("%q was shown to %v", shown, s)
		}
	}
}

// others are hosts that resemble the vault, by the kind of resemblance.
var others = map[string]func(vault string) string{
	"other":     func(string) string { return "other.evil.test" },
	"lookalike": func(vault string) string { return vault + ".evil.test" },
	"prefix":    func(vault string) string { return "x" + vault },
	"sub":       func(vault string) string { return "a." + vault },
	"port":      func(vault string) string { return vault + ":8443" },
}

// leaks are the ways in which a vault can try to send credentials on to another host.
func leaks(own, other string) map[string]*registry {
	elsewhere := "https://" + other
	toElsewhere := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="`+elsewhere+`"`)
		http.Redirect(w, r, elsewhere+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}
	withOwn := func(location string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, _ string) {
			io.WriteString(w, `{"location":"`+location+`","use_registry_credentials":true}`)
		}
	}
	return map[string]*registry{
		"discovery-redirect":       {discovery: toElsewhere},
		"modules-elsewhere":        {discovery: document("application/json", `{"modules.v1":"`+elsewhere+`/v1/modules/"}`)},
		"versions-redirect":        {versions: toElsewhere},
		"download-redirect":        {download: func(w http.ResponseWriter, r *http.Request, _ string) { toElsewhere(w, r) }},
		"archive":                  located(elsewhere + "/x.zip"),
		"archive-redirect":         {download: located("/x.zip").download, other: toElsewhere},
		"page":                     located(elsewhere + "/page"),
		"page-redirect":            {download: located("/page").download, other: toElsewhere},
		"repository":               located("git::" + elsewhere + "/x.git?ref=v1"),
		"repository-redirect":      {download: located("git::https://" + own + "/x.git?ref=v1").download, other: toElsewhere},
		"own-credentials":          {download: withOwn(elsewhere + "/x.zip")},
		"own-credentials-redirect": {download: withOwn("/x.zip"), other: toElsewhere},
		"plain":                    located("http://" + own + "/x.zip"),
	}
}

// zipFor serves a package and a cookie to every client.
func zipFor(t *testing.T) http.HandlerFunc {
	zip := fetched(t, "https://src.test/archives/legal.zip")
	return func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "x"})
		if strings.Contains(r.URL.RawQuery, "terraform-get") {
			w.Header().Set("X-Terraform-Get", "/x.zip")
			return
		}
		w.Write(zip)
	}
}

func TestCredentialsStayWhereTheyBelong(t *testing.T) {
	p := start(t, trusted)
	number, few := 0, shorter(t, "git is led to two other hosts only")
	for name, otherOf := range others {
		for form := range leaks("", "") {
			if few && strings.HasPrefix(form, "repository") && name != "other" && name != "lookalike" {
				continue
			}
			own := vault(number)
			other := otherOf(own)
			number++
			p.run(form+"-to-"+name, func(t *testing.T) {
				before := len(world.strangers.at(""))
				if name != "port" {
					strangerAt(t, other, zipFor(t))
				}
				strangerAt(t, own, leaks(own, other)[form])
				m := module{own, "case", "leak", "aws"}
				p.ask(http.MethodGet, m.path("versions"))
				p.install(m, "1.0.0")
				checkShown(t, before)
				if len(world.strangers.at(own)) == 0 {
					t.Error("the vault was not asked: the case shows nothing")
				}
			})
		}
	}
	own := vault(vaults - 1)
	p.run("the-vault-itself", func(t *testing.T) {
		g := located("/x.zip")
		g.other = zipFor(t)
		strangerAt(t, own, g)
		p.mustInstall(module{own, "case", "shown", "aws"}, "1.0.0")
		for _, s := range world.strangers.at(own) {
			want := "Bearer " + secretToken
			if strings.HasSuffix(s.URI, ".zip") {
				want = "Basic " + base64.StdEncoding.EncodeToString([]byte("robot:"+secretPassword))
			}
			if got := s.Header.Get("Authorization"); got != want {
				t.Errorf("%s was sent %q; want %q", s.URI, got, want)
			}
			if s.Header.Get("Cookie") != "" {
				t.Errorf("%s was sent a cookie", s.URI)
			}
		}
	})
	p.run("a-good-forge", func(t *testing.T) {
		strangerAt(t, own, located("https://src.test/archives/good.tar.gz"))
		before := len(world.good["src.test"].Requests())
		p.mustInstall(module{own, "case", "good", "aws"}, "1.0.0")
		for _, r := range world.good["src.test"].Requests()[before:] {
			if r.Header.Get("Authorization") != "" {
				t.Errorf("src.test was shown %q", r.Header.Get("Authorization"))
			}
		}
	})
}

// A registry and a source do not receive headers of clients.
func TestClientsOwnHeadersStayHere(t *testing.T) {
	p := start(t, trusted)
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Terraform-Get", "https://src.test/archives/good.tar.gz")
	})
	host := located("https://" + stranger(t, page) + "/page").host(t)
	m := module{host, "case", "headers", "aws"}
	headers := []string{
		"Authorization", "Bearer " + secretClient, "Cookie", "session=" + secretClient, "Proxy-Authorization", "Basic " + secretClient,
		"X-Forwarded-For", secretClient, "X-Forwarded-Host", secretClient, "Forwarded", "host=" + secretClient, "Referer", "https://" + secretClient,
		"X-Terraform-Version", secretClient, "User-Agent", "Terraform/" + secretClient[:6], "Private-Token", secretClient, "X-Request-Id", secretClient,
		"Accept", "application/" + secretClient, "Range", "bytes=0-1", "If-None-Match", `"` + secretClient + `"`, "Via", secretClient, "Traceparent", secretClient,
	}
	before := len(world.strangers.at(""))
	good := len(world.good["src.test"].Requests())
	for name, path := range map[string]string{"versions": m.path("versions"), "download": m.path("1.0.0/download"), "package": m.archive("1.0.0")} {
		p.run(name, func(t *testing.T) {
			if a := p.ask(http.MethodGet, path+"?token="+secretClient, headers...); a.Status >= 400 {
				t.Errorf("%d: %s", a.Status, a.Said())
			}
		})
	}
	checkShown(t, before)
	for _, r := range world.good["src.test"].Requests()[good:] {
		for name, values := range r.Header {
			if contains([]byte(strings.Join(values, " "))) != "" {
				t.Errorf("src.test was sent %s: %s", name, values)
			}
		}
	}
}
