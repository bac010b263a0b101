package git_test

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

// refusedURLs lists URLs that a registry or a .gitmodules file may try. None may start a process.
var refusedURLs = []string{
	"", "x", "/etc", "./x", "../x", "https://", "https:///x", "https:x", "https://h", "https://h/", "https://h//",
	"ext::sh -c touch% /tmp/x", "ext::sh", "fd::17", "fd::17/foo", "file:///etc", "file://h/etc", "file::/etc", "::x",
	"git://h/x", "ftp://h/x", "rsync://h/x", "git+ssh://h/x", "javascript:x", "persistent-https://h/x",
	"https::https://h/x",
	"--upload-pack=touch x", "-x://h/x", "https://-h/x", "https://--upload-pack=x/y", "https://h/-x",
	"https://h//--upload-pack=x", "https://h/%2d-x",
	"https://h/../x", "https://h/a/../x", "https://h/a/%2e%2e/x", "https://h/./x", "https://h/a\nb", "https://h/a%0ab",
	"https://h/a%00b", "https://h/a\\b", "https://h/%ff",
	"https://h\n/x", "https://h%0a/x", "https://h h/x", "https://*/x", "https://*.h/x", "https://h..h/x", "https://h./x",
	"https://b\u00fccher.example/x", "https://[fe80::1%25eth0]/x", "https://h_/x",
	"https://h:0/x", "https://h:65536/x", "https://h:-1/x", "https://h:22x/x",
	"https://user:password@h/x", "https://:password@h/x", "https://h/x#fragment", "https://h/x?ref=a#b",
	"https://h/x?sshkey=a2V5", "https://h/x?ref=v1&sshkey=a2V5", "https://h/x?archive=zip", "https://h/x?ref=v1;depth=1",
	"https://h/x?Ref=v1", "https://h/x?ref=%zz",
	"https://h/x?ref=a&ref=b", "https://h/x?depth=-1", "https://h/x?depth=0", "https://h/x?depth=", "https://h/x?depth=1x",
	"https://h/x?depth=99999999999", "https://h/x?depth=1&depth=2",
	"ssh://h", "ssh://-oProxyCommand=x/y", "ssh://-oProxyCommand=x@h/y", "ssh://%2doProxyCommand=x@h/y",
	"ssh://git:secret@h/x", "ssh://git@h/x;y", "ssh://git@h/$(x)", "ssh://git@h/x'y", "ssh://git@h/-x", "ssh://g it@h/x",
	"ssh://git@h/a%0ab", "ssh://git@h/`x`",
	"https://h/" + strings.Repeat("x", 5000),
}

// Only locations refuse these: in .gitmodules they have another meaning.
var refusedLocations = []string{"git@github.com:acme/x.git", "github.com:acme/x.git"}

var refusedRefs = []string{
	"-b", "--upload-pack=x", "-", "+main", "+refs/heads/*:refs/heads/*", "a..b", "a:b", "^main", "main^", "main~1",
	"main^{tree}", "@", "@{u}", "main@{1}", ":/fix",
	"refs/heads/*", "a?b", "a[b", "a\\b", "a b", "a\nb", "a\x00b", "a\x7fb", "/a", "a/", "a//b", ".a", "a/.b", "a.",
	"a.lock", "a.lock/b", "\u202ea", "a\xff", strings.Repeat("a", 251),
}

// noGit puts a git into PATH that leaves a mark when it is started.
func noGit(t *testing.T) (started func() bool) {
	dir := t.TempDir()
	mark := filepath.Join(dir, "started")
	for _, name := range []string{"git", "ssh", "sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n: >'"+mark+"'\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return func() bool {
		_, err := os.Lstat(mark)
		_ = os.Remove(mark)
		return err == nil
	}
}

func TestRefused(t *testing.T) {
	started := noGit(t)
	f := newFetcher(t)
	f.Credentials = fetch.Credentials{{Host: "h", SSHKeyFile: "/key", KnownHostsFile: "/hosts"}}
	f.Network.(*network).resolve = func(context.Context, string, int) (netip.AddrPort, error) {
		return netip.MustParseAddrPort("127.0.0.1:1"), nil
	}
	urls := append(refusedURLs, refusedLocations...)
	for _, ref := range refusedRefs {
		urls = append(urls, "https://h/x?ref="+url.QueryEscape(ref))
	}
	for _, u := range urls {
		_, err := f.FetchURL(t.Context(), u, files{})
		if !errors.Is(err, modproxy.ErrInvalid) || !errors.Is(git.Grammar(u), modproxy.ErrInvalid) ||
			!errors.Is(f.CheckURL(t.Context(), u), modproxy.ErrInvalid) {
			t.Errorf("%.80q: error %v", u, err)
		} else if strings.Contains(err.Error(), "password") && strings.Contains(err.Error(), "user:") ||
			strings.Contains(err.Error(), "a2V5") {
			t.Errorf("%.80q: error %v shows a secret", u, err)
		}
		if started() {
			t.Errorf("%.80q: a process was started", u)
		}
	}
	if _, err := f.FetchURL(t.Context(), "ssh://h/x", files{}); !started() || err == nil {
		t.Errorf("the mark does not work: %v", err)
	}
	if left, _ := os.ReadDir(f.Dir); len(left) > 0 {
		t.Errorf("%s left behind", left)
	}
}

func TestNotAllowed(t *testing.T) {
	started := noGit(t)
	no := func(context.Context, *url.URL) error { return egress.ErrRefused }
	for u, f := range map[string]*git.Getter{
		"https://h/x":   {Network: &network{check: no}},
		"ssh://git@h/x": {},
		"ssh://h/x":     {Credentials: fetch.Credentials{{Host: "h", SSHKeyFile: "/key"}}},
		"ssh://h/y": {Credentials: fetch.Credentials{{Host: "h", SSHKeyFile: "/key\" -o x=\"",
			KnownHostsFile: "/hosts"}}},
		"ssh://h/z": {Credentials: fetch.Credentials{{Host: "other", SSHKeyFile: "/key", KnownHostsFile: "/hosts"}}},
	} {
		f.Dir = t.TempDir()
		if err := f.CheckURL(t.Context(), u); !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("Check(%q): error %v", u, err)
		}
		if _, err := f.FetchURL(t.Context(), u, files{}); !errors.Is(err, modproxy.ErrDenied) || started() {
			t.Errorf("Fetch(%q): error %v", u, err)
		}
		if err := git.Grammar(u); err != nil {
			t.Errorf("the grammar refuses %q: %v", u, err)
		}
	}
	resolve := func(context.Context, string, int) (netip.AddrPort, error) { return netip.AddrPort{}, egress.ErrRefused }
	f := &git.Getter{
		Dir: t.TempDir(), Network: &network{resolve: resolve},
		Credentials: fetch.Credentials{{Host: "h", SSHKeyFile: "/key", KnownHostsFile: "/hosts"}},
	}
	if _, err := f.FetchURL(t.Context(), "ssh://h/x", files{}); !errors.Is(err, modproxy.ErrDenied) ||
		!errors.Is(err, egress.ErrRefused) || started() {
		t.Errorf("a refused ssh host: error %v", err)
	}
}

func TestAccepted(t *testing.T) {
	for _, u := range []string{
		"https://github.com/acme/x.git", "https://github.com/acme/x?ref=v1.0.0&depth=1", "https://GitHub.com:443/acme/x",
		"https://127.0.0.1:8443/x", "https://[::1]:8443/x",
		"https://git@github.com/acme/x", "https://gitlab.example/group/-/x.git",
		"https://dev.azure.com/o/My%20Project/_git/x", "https://h/x?ref=", "http://h/x",
		"ssh://git@github.com/acme/x.git?ref=feature/x", "ssh://github.com:2222/~acme/x.git",
		"ssh://APKAEXAMPLE@git-codecommit.us-east-1.amazonaws.com/v1/repos/x",
		"https://h/x?ref=v1.0.0%2Bbuild", "https://h/x?ref=release-1.x", "https://h/x?ref=f\u00fcr/alle",
		"https://h/x?ref=0123abc",
	} {
		if err := git.Grammar(u); err != nil {
			t.Errorf("%s: %v", u, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	for _, u := range append(refusedURLs, refusedLocations...) {
		f.Add(u)
	}
	for _, ref := range refusedRefs {
		f.Add("https://h/x?ref=" + url.QueryEscape(ref))
	}
	f.Add("ssh://git@[::1]:22/~a/x.git?ref=v1&depth=1")
	f.Add("https://git@GitHub.com:443/acme/My%20x?ref=a%2Fb")
	f.Fuzz(git.HoldSource)
}

func FuzzSubmodules(f *testing.F) {
	f.Add("submodule.a.path\na\x00submodule.a.url\n../b.git\x00", "https://h/g/x.git")
	f.Add("submodule.a.b.path\n-a\x00submodule.a.b.url\n-b\x00submodule.a.b.update\n!x\x00", "ssh://git@h/x")
	f.Add("submodule.../x.path\na\x00submodule.x.update\nnone\x00submodule.x.path\x00", "git@h:x")
	f.Add("submodule.a.path\na\x00submodule.a.url\n./../../../../e/x\x00", "https://h/x")
	f.Add("submodule.a.path\na\x00submodule.a.url\ngit@h:a/b\x00", "https://h/x")
	for _, u := range refusedURLs {
		f.Add("submodule.a.path\na\x00submodule.a.url\n"+u+"\x00", "https://h/x")
	}
	f.Fuzz(git.HoldSubmodules)
}
