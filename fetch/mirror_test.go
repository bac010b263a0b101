package fetch_test

import (
	"errors"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

func mirror(t testing.TB, from, to string) fetch.Mirror {
	t.Helper()
	m, err := fetch.ParseMirror(from, to)
	if err != nil {
		t.Fatalf("%s to %s: %v", from, to, err)
	}
	return m
}

func located(t testing.TB, s string) modproxy.Location {
	t.Helper()
	l, err := modproxy.ParseLocation(s, &url.URL{})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return l
}

func TestMirrors(t *testing.T) {
	all := fetch.Mirrors{
		mirror(t, "github.com/acme/legacy", "ssh://build@git.corp.example:2222/old/legacy.git"),
		mirror(t, "GitHub.com:443/acme/*", "git.corp.example/mirrors/acme/*"),
		mirror(t, "github.com/acme/never", "never.example/x"),
		mirror(t, "files.example.com:8443/*", "http://files.corp.example/*"),
		mirror(t, "ssh.example.com/*", "ssh://git@git.corp.example/*"),
		mirror(t, "ghcr.io/acme/*", "harbor.corp.example/ghcr/acme/*"),
		mirror(t, "git.corp.example/mirrors/*", "second.example/*"),
		mirror(t, "github.com:22/only-ssh/*", "git.corp.example/only-ssh/*"),
		mirror(t, "git.example.com/*", "https://git.example.com/*"),
	}
	const mirrors = "https://git.corp.example/mirrors/acme/"
	for from, want := range map[string]string{
		"git::https://github.com/acme/network.git?ref=v1.2.3":           "git::" + mirrors + "network.git?ref=v1.2.3",
		"git::https://github.com/acme/network//sub?ref=v1&depth=1":      "git::" + mirrors + "network//sub?ref=v1&depth=1",
		"git::https://github.com/acme/group/deep/network.git":           "git::" + mirrors + "group/deep/network.git",
		"git::https://GITHUB.com:443/acme/network.git":                  "git::" + mirrors + "network.git",
		"git::https://github.com./acme/network.git":                     "git::" + mirrors + "network.git",
		"git::http://github.com/acme/network.git":                       "git::" + mirrors + "network.git",
		"git::ssh://git@github.com/acme/network.git":                    "git::" + mirrors + "network.git",
		"git::ssh://git@github.com:22/acme/network.git":                 "git::" + mirrors + "network.git",
		"git@github.com:acme/network.git":                               "git::" + mirrors + "network.git",
		"github.com/acme/network/sub":                                   "git::" + mirrors + "network.git//sub",
		"git::https://user:secret@github.com/acme/network.git":          "git::" + mirrors + "network.git",
		"git::https://github.com/%61cme/network.git":                    "git::" + mirrors + "network.git",
		"git::https://github.com/acme/network.git/":                     "git::" + mirrors + "network.git/",
		"git::https://github.com/acme/legacy.git?ref=v1":                "git::ssh://build@git.corp.example:2222/old/legacy.git?ref=v1",
		"git::https://github.com/acme/legacy?ref=v1":                    "git::ssh://build@git.corp.example:2222/old/legacy.git?ref=v1",
		"git::https://github.com/acme/legacy/more":                      "git::" + mirrors + "legacy/more",
		"git::https://github.com/acme/never":                            "git::" + mirrors + "never",
		"https://github.com/acme/network/archive/v1.zip//*?archive=zip": mirrors + "network/archive/v1.zip//*?archive=zip",
		"https://files.example.com:8443/a/b.zip?checksum=md5:00":        "http://files.corp.example/a/b.zip?checksum=md5:00",
		"git::https://git.corp.example/mirrors/a":                       "git::https://second.example/a",
		"git::ssh://git@github.com/only-ssh/a":                          "git::https://git.corp.example/only-ssh/a",
		"oci://ghcr.io/acme/vpc?tag=1.0.0":                              "oci://harbor.corp.example/ghcr/acme/vpc?tag=1.0.0",
		"git::ssh://git@git.example.com/a":                              "git::https://git.example.com/a",

		// Without a mirror.
		"git::https://github.com/acme":                "",
		"git::https://github.com/acme/":               "",
		"git::https://github.com/acme-evil/network":   "",
		"git::https://github.com/Acme/network":        "",
		"git::https://github.com/other/acme/network":  "",
		"git::https://www.github.com/acme/network":    "",
		"git::https://github.com.evil.example/acme/x": "",
		"git::https://github.com:8443/acme/network":   "",
		"git::https://github.com/only-ssh/a":          "",
		"git::https://github.com@evil.example/acme/x": "",
		"https://files.example.com/a/b.zip":           "",
		"https://files.example.com:8443/":             "",
	} {
		l := located(t, from)
		got, mirrored, err := all.Replace(l)
		switch {
		case err != nil:
			t.Errorf("%s: %v", from, err)
		case mirrored != (want != "") || !mirrored && got != l:
			t.Errorf("%s: %s, %v", from, got, mirrored)
		case mirrored && got.String() != want:
			t.Errorf("%s is replaced by %s, want %s", from, got, want)
		}
	}
}

// A crafted location that matches is downloaded neither from the mirror nor from the forge.
func TestMirrorsRefuse(t *testing.T) {
	all := fetch.Mirrors{
		mirror(t, "github.com/acme/*", "git.corp.example/mirrors/acme/*"),
		mirror(t, "ssh.example.com/*", "ssh://git@git.corp.example/*"),
	}
	for _, raw := range []string{
		"https://github.com/acme/../acme/x",
		"https://github.com/other/../acme/x",
		"https://github.com/acme/../other/x",
		"https://github.com/acme/x/../y",
		"https://github.com/acme/x/%2e%2e/y",
		"https://github.com/acme/./x",
		"https://github.com/acme/%2e/x",
		"https://github.com/acme//x",
		"https://github.com//acme/x",
		"https://github.com/acme%2fx",
		"https://github.com/acme/x%2f..%2f..%2fsecret",
		"https://github.com/acme/%252e%252e/secret",
		`https://github.com/acme/..\..\secret`,
		"https://github.com/acme/..%5c..%5csecret",
		"https://github.com/acme/..;/..;/secret",
		"https://github.com/acme/x%00",
		"https://github.com/acme/x%0d%0aHost:%20evil",
		"https://github.com/acme/x%3fref=main",
		"https://github.com/acme/x%23",
		"https://github.com/acme/:8080/x",
		"https://github.com/acme/x%ff",
		"https://github.com/acme/\u202ex",
		"https://github.com/acme/* /x",
	} {
		for _, getter := range []string{"git", "https", "oci"} {
			l, mirrored, err := all.Replace(modproxy.Location{Getter: getter, URL: raw})
			if !errors.Is(err, modproxy.ErrInvalid) || !mirrored || l.URL != raw {
				t.Errorf("%s::%s: %s, %v, error %v", getter, raw, l, mirrored, err)
			}
		}
	}
	for raw, says := range map[string]string{
		"https://github.com/acme/x.zip?token=SECRET":                 "its query is not sent to another host",
		"https://github.com/acme/x.zip?archive=zip&X-Amz-Sig=SECRET": "its query is not sent to another host",
		"https://github.com/acme/x.zip?a;SECRET":                     "its query is not sent to another host",
		"https://ssh.example.com/x.zip":                              "over ssh",
		"oci://ssh.example.com/x":                                    "over ssh",
	} {
		getter, _, _ := strings.Cut(raw, ":")
		_, _, err := all.Replace(modproxy.Location{Getter: getter, URL: raw})
		if !errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: error %v", raw, err)
		}
	}
}

func TestParseMirrorErrors(t *testing.T) {
	const to = "git.corp.example/mirrors/*"
	for _, c := range []struct{ from, to, says string }{
		{"https://github.com/acme/*", to, "from: want HOST/PATH, without"},
		{"git::github.com/acme/*", to, "from: want HOST/PATH, without"},
		{"", to, "from: "},
		{"github.com", to, "from: want HOST/PATH"},
		{"github.com/", to, "from: want HOST/PATH"},
		{"github.com/acme/", to, "from: want HOST/PATH"},
		{"github.com/acme/*/x", to, "whole last segment"},
		{"github.com/acme-*", to, "whole last segment"},
		{"github.com/acme/**", to, "whole last segment"},
		{"github.com/../*", to, "from: want HOST/PATH"},
		{"github.com/%61cme/*", to, "from: want HOST/PATH"},
		{"github.com/acme?x/*", to, "from: want HOST/PATH"},
		{"git:SECRET@github.com/acme/*", to, "from: want "},
		{"github.com:0/acme/*", to, "port"},
		{"github.com:99999/acme/*", to, "port"},
		{"git_hub/acme/*", "x_y/*", "from: "},
		{"*/acme/*", to, "from: "},
		{"github.com/acme/*", "ftp://git.corp.example/*", "to: want the scheme"},
		{"github.com/acme/*", "file:///srv/*", "to: want the scheme"},
		{"github.com/acme/*", "https://user:SECRET@git.corp.example/*", "to: only ssh://USER@HOST"},
		{"github.com/acme/*", "SECRET@git.corp.example/*", "to: only ssh://USER@HOST"},
		{"github.com/acme/*", "ssh://git:SECRET@git.corp.example/*", "to: only ssh://USER@HOST"},
		{"github.com/acme/*", "ssh://-oProxyCommand=x@git.corp.example/*", "to: only ssh://USER@HOST"},
		{"github.com/acme/*", "git@git.corp.example:mirrors/*", "to: only ssh://USER@HOST"},
		{"github.com/acme/*", "https://git.corp.example/*?token=SECRET", "to: "},
		{"github.com/acme/*", "git.corp.example/../*", "to: "},
		{"github.com/acme/*", "git.corp.example/mirrors", "* at the end of both"},
		{"github.com/acme/vpc", to, "* at the end of both"},
		{"github.com/acme/*", "github.com/acme/*", "the same"},
		{"github.com/acme/vpc", "GitHub.com:443/acme/vpc", "the same"},
	} {
		if _, err := fetch.ParseMirror(c.from, c.to); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s to %s: error %v", c.from, c.to, err)
		}
	}
}

func TestMirrorCovers(t *testing.T) {
	for _, c := range []struct {
		a, b   string
		covers bool
	}{
		{"h/a/*", "h/a/*", true}, {"h/a/*", "h/a/b", true}, {"h/a/*", "h/a/b/*", true}, {"h/*", "h/a", true},
		{"h/a", "h/a.git", true}, {"h/a", "h/a", true},
		{"h/a/*", "h/a", false}, {"h/a", "h/a/*", false}, {"h/a", "h/a/b", false}, {"h/a/b/*", "h/a/*", false},
		{"h/a/*", "h:8443/a/*", false}, {"h/a/*", "i/a/*", false}, {"h/a/*", "h/ab/c", false}, {"h/a/*", "h/A/*", false},
	} {
		to := func(from string) string {
			return "m.example/x" + map[bool]string{true: "/*"}[strings.HasSuffix(from, "*")]
		}
		if got := mirror(t, c.a, to(c.a)).Covers(mirror(t, c.b, to(c.b))); got != c.covers {
			t.Errorf("%s covers %s: %v", c.a, c.b, got)
		}
	}
}

func TestMirrorURL(t *testing.T) {
	for to, want := range map[string]string{
		"git.corp.example/m/*": "https://git.corp.example/m/", "git.corp.example/*": "https://git.corp.example/",
		"http://h:8080/*": "http://h:8080/", "ssh://git@h:443/m/*": "ssh://git@h:443/m/", "ssh://h:22/*": "ssh://h/",
	} {
		if got := mirror(t, "github.com/acme/*", to).URL().String(); got != want {
			t.Errorf("%s: %s, want %s", to, got, want)
		}
	}
}

// A replaced location is below the directory of the mirror, at its host, and has nothing else of the location than its plain segments
// and its query.
func FuzzMirrors(f *testing.F) {
	for _, raw := range []string{
		"https://github.com/acme/network.git?ref=v1", "https://u:p@github.com/acme/%2e%2e/%2e%2e/secret", "ssh://git@github.com:22/acme/a/b/",
		"https://github.com/acme/..;/x", "https://github.com/acme/@evil.example/x", "http://github.com:80//acme/x#y",
	} {
		f.Add("git", raw)
		f.Add("https", raw)
	}
	all := fetch.Mirrors{mirror(f, "github.com/acme/*", "git.corp.example:8443/mirrors/acme/*")}
	f.Fuzz(func(t *testing.T, getter, raw string) {
		l, mirrored, err := all.Replace(modproxy.Location{Getter: getter, URL: raw})
		if err != nil || !mirrored {
			if l.URL != raw || err != nil && !mirrored {
				t.Fatalf("%q: %+v, %v, error %v", raw, l, mirrored, err)
			}
			return
		}
		before, errBefore := url.Parse(raw)
		u, err := url.Parse(l.URL)
		if err != nil || errBefore != nil || u.Host != "git.corp.example:8443" || u.User != nil || u.Fragment != "" || u.RawQuery != before.RawQuery {
			t.Fatalf("%q became %q, error %v", raw, l.URL, err)
		}
		rest, below := strings.CutPrefix(u.EscapedPath(), "/mirrors/acme/")
		if !below || rest == "" || strings.ContainsAny(rest, `%\;`) || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
			t.Fatalf("%q became %q", raw, l.URL)
		}
	})
}
