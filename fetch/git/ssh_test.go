package git_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

// sshServer is OpenSSH's server on loopback, with one process for each connection.
type sshServer struct {
	addr      netip.AddrPort
	user      string
	hostKey   string // in known_hosts after the host's name
	clientKey string // file
	strange   string // file of a key that the server does not know

	log sync.Map // connection number → *bytes.Buffer
}

func keygen(t *testing.T, file string) (public string) {
	t.Helper()
	c := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen, of the package openssh-client: %v %s", err, out)
	}
	b, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func serveSSH(t *testing.T) *sshServer {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd") // not in the PATH of users
	}
	if err != nil {
		rig.Missing(t, "NOT RUN: no sshd, which is in the package openssh-server")
	}
	if os.Getuid() == 0 {
		// sshd does not start as root without this directory; distributions make it at boot.
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	// ssh would split, expand and unquote this name, if it could.
	dir := filepath.Join(t.TempDir(), "a key's %d name")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	plain := t.TempDir()
	s := &sshServer{user: me.Username, clientKey: filepath.Join(dir, "client"), strange: filepath.Join(dir, "strange")}
	s.hostKey = keygen(t, filepath.Join(plain, "host"))
	keygen(t, s.strange)
	authorized := filepath.Join(plain, "authorized")
	config := filepath.Join(plain, "config")
	for name, content := range map[string]string{
		authorized: keygen(t, s.clientKey) + "\n",
		config: fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\n"+
			"PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"+
			"AcceptEnv GIT_PROTOCOL\nPidFile none\nForceCommand git-shell -c \"$SSH_ORIGINAL_COMMAND\"\n"+
			"SetEnv HOME=%s\n", // without the startup files of the user's shell
			filepath.Join(plain, "host"), authorized, plain),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().(*net.TCPAddr).AddrPort()
	var running sync.WaitGroup
	t.Cleanup(func() { listener.Close(); running.Wait() })
	running.Go(func() {
		for n := 0; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.handle(n, sshd, config, conn.(*net.TCPConn)) })
		}
	})
	return s
}

func (s *sshServer) handle(n int, sshd, config string, conn *net.TCPConn) {
	file, err := conn.File()
	conn.Close()
	if err != nil {
		return
	}
	defer file.Close()
	var log bytes.Buffer
	cmd := exec.Command(sshd, "-i", "-e", "-f", config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &log
	_ = cmd.Run() // the status is that of the connection
	s.log.Store(n, &log)
}

func (s *sshServer) logged() string {
	var all strings.Builder
	s.log.Range(func(_, log any) bool { all.Write(log.(*bytes.Buffer).Bytes()); return true })
	return all.String()
}

func (s *sshServer) fetcher(t *testing.T, key, knownHosts string) *git.Getter {
	t.Helper()
	file := filepath.Join(filepath.Dir(s.clientKey), fmt.Sprintf("known %d", len(knownHosts)))
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
			return s.addr, nil // regardless of what the name resolves to later
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
		fmt.Sprintf("[submodule \"a\"]\n\tpath = a\n\turl = %s@git.test:%s\n", s.user, a.dir+"/.git")+
			"[submodule \"b\"]\n\tpath = b\n\turl = ../../a.git/.git\n")
	super.submodule("a", a.git("rev-parse", "main"))
	super.submodule("b", a.git("rev-parse", "main~1"))
	super.git("add", ".gitmodules")
	super.git("commit", "-q", "-m", "super")

	f := s.fetcher(t, s.clientKey, "git.test "+s.hostKey+"\n[git.test]:2222 "+s.hostKey)
	for _, ref := range []string{"", "both", a.git("rev-parse", "main~2"), a.git("rev-parse", "--short=8", "main~2")} {
		want := getter(t, a.dir, ref)
		got := files{}
		if _, err := f.FetchURL(t.Context(), "ssh://"+s.user+"@git.test"+a.dir+"/.git?ref="+ref, got); err != nil {
			t.Fatalf("%v\n%s", err, s.logged())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ref %q: a clone (-) is not what was fetched (+):\n%s", ref, diff)
		}
	}
	got := files{}
	if _, err := f.FetchURL(t.Context(), "ssh://"+s.user+"@git.test:2222"+super.dir+"/.git", got); err != nil {
		t.Errorf("%v\n%s", err, s.logged())
	}
	if got["a/n.tf"] != "file seventh\n" || got["b/n.tf"] != "file third\n" || len(got) != 3 {
		t.Errorf("submodules: %q", got)
	}
	_, err := f.FetchURL(t.Context(), "ssh://"+s.user+"@git.test"+a.dir+"/.git?ref=v9", files{})
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
		{"unknown host", s.clientKey, "other.test " + s.hostKey, "", "Host key verification failed"},
		{"known on another port", s.clientKey, "git.test " + s.hostKey, ":2222", "Host key verification failed"},
		{"another host key", s.clientKey, "git.test " + keygen(t, filepath.Join(root, "key")), "",
			"Host key verification failed"},
		{"unknown key", s.strange, "git.test " + s.hostKey, "", "Permission denied"},
	} {
		_, err := s.fetcher(t, test.key, test.hosts).FetchURL(t.Context(),
			"ssh://"+s.user+"@git.test"+test.port+a.dir+"/.git", files{})
		if !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v\n%s", test.name, err, s.logged())
		}
	}
}
