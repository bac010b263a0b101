package git_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

type sshServer struct{ *rig.SSHServer }

func serveSSH(t *testing.T) sshServer {
	t.Helper()
	return sshServer{rig.ServeSSH(t)}
}

func (s sshServer) fetcher(t *testing.T, key, knownHosts string) *git.Getter {
	t.Helper()
	file := filepath.Join(filepath.Dir(s.ClientKey), fmt.Sprintf("known %d", len(knownHosts)))
	if err := os.WriteFile(file, []byte(knownHosts+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &git.Getter{
		Dir:         t.TempDir(),
		Credentials: fetch.Credentials{{Host: "git.test", SSHKeyFile: key, KnownHostsFile: file}},
		Network: &network{resolve: func(_ context.Context, host string, port int) (netip.AddrPort, error) {
			if host != "git.test" || port != 22 && port != 2222 {
				return netip.AddrPort{}, fmt.Errorf("resolve %s:%d", host, port)
			}
			return s.Addr, nil // regardless of what the name resolves to later
		}},
	}
}

func TestSSH(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := serveSSH(t)
	a := history(t, root, "a.git")
	super := newAuthor(t, root, "super.git")
	super.write(".gitmodules",
		fmt.Sprintf("[submodule \"a\"]\n\tpath = a\n\turl = %s@git.test:%s\n", s.User, a.dir+"/.git")+
			"[submodule \"b\"]\n\tpath = b\n\turl = ../../a.git/.git\n")
	super.submodule("a", a.git("rev-parse", "main"))
	super.submodule("b", a.git("rev-parse", "main~1"))
	super.git("add", ".gitmodules")
	super.git("commit", "-q", "-m", "super")

	f := s.fetcher(t, s.ClientKey, "git.test "+s.HostKey+"\n[git.test]:2222 "+s.HostKey)
	for _, ref := range []string{"", "both", a.git("rev-parse", "main~2"), a.git("rev-parse", "--short=8", "main~2")} {
		want := getter(t, a.dir, ref)
		got := files{}
		if _, err := f.FetchURL(t.Context(), "ssh://"+s.User+"@git.test"+a.dir+"/.git?ref="+ref, got); err != nil {
			t.Fatalf("%v\n%s", err, s.Logged())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ref %q: a clone (-) is not what was fetched (+):\n%s", ref, diff)
		}
	}
	got := files{}
	if _, err := f.FetchURL(t.Context(), "ssh://"+s.User+"@git.test:2222"+super.dir+"/.git", got); err != nil {
		t.Errorf("%v\n%s", err, s.Logged())
	}
	if got["a/n.tf"] != "file seventh\n" || got["b/n.tf"] != "file third\n" || len(got) != 3 {
		t.Errorf("submodules: %q", got)
	}
	_, err := f.FetchURL(t.Context(), "ssh://"+s.User+"@git.test"+a.dir+"/.git?ref=v9", files{})
	if !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("no such ref: error %v", err)
	}
}

func TestSSHTrust(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := serveSSH(t)
	a := history(t, root, "a.git")
	for _, test := range []struct {
		name, key, hosts, port, says string
	}{
		{"unknown host", s.ClientKey, "other.test " + s.HostKey, "", "Host key verification failed"},
		{"known on another port", s.ClientKey, "git.test " + s.HostKey, ":2222", "Host key verification failed"},
		{"another host key", s.ClientKey, "git.test " + rig.Keygen(t, filepath.Join(root, "key")), "",
			"Host key verification failed"},
		{"unknown key", s.Strange, "git.test " + s.HostKey, "", "Permission denied"},
	} {
		_, err := s.fetcher(t, test.key, test.hosts).FetchURL(t.Context(),
			"ssh://"+s.User+"@git.test"+test.port+a.dir+"/.git", files{})
		if !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v\n%s", test.name, err, s.Logged())
		}
	}
}

// A server that is not reached, or that ends the connection, has given no answer. A server that denies access has.
func TestSSHNoAnswer(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	s := serveSSH(t)
	a := history(t, root, "a.git")
	listen := func() *net.TCPListener {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	ends := listen()
	go func() {
		for {
			conn, err := ends.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	closed := listen()
	closed.Close()
	hosts := "git.test " + s.HostKey
	for _, test := range []struct {
		name, key, path string
		addr            net.Addr
		why             string // empty: it answers
	}{
		{"closed port", s.ClientKey, a.dir + "/.git", closed.Addr(), "ssh: connect to host 127.0.0.1 port "},
		{"ended connection", s.ClientKey, a.dir + "/.git", ends.Addr(), "onnection "},
		{"unknown key", s.Strange, a.dir + "/.git", net.TCPAddrFromAddrPort(s.Addr), ""},
		{"no repository", s.ClientKey, a.dir + "-none", net.TCPAddrFromAddrPort(s.Addr), ""},
	} {
		f := s.fetcher(t, test.key, hosts)
		f.Network.(*network).resolve = func(context.Context, string, int) (netip.AddrPort, error) {
			return test.addr.(*net.TCPAddr).AddrPort(), nil
		}
		_, err := f.Tags(t.Context(), sourceAt("ssh://"+s.User+"@git.test"+test.path), "v")
		none, ok := errors.AsType[*fetch.NoAnswer](err)
		switch {
		case !errors.Is(err, modproxy.ErrUnavailable), ok != (test.why != ""):
			t.Errorf("%s: error %v", test.name, err)
		case ok && (!strings.Contains(none.Why, test.why) || strings.Contains(none.Why, a.dir)):
			t.Errorf("%s: %q; want %q without the repository", test.name, none.Why, test.why)
		}
	}
}
