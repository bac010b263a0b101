package rig

import (
	"bytes"
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
)

// SSHServer is OpenSSH's server on loopback, with one process for each connection. It serves the git repositories that the user of this
// process can read.
type SSHServer struct {
	Addr      netip.AddrPort
	User      string
	HostKey   string // in known_hosts after the host's name
	ClientKey string // file
	Strange   string // file of a key that the server does not know

	log sync.Map // connection number → *bytes.Buffer
}

// Keygen writes a new key to file, and returns its public part.
func Keygen(t testing.TB, file string) (public string) {
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

// ServeSSH starts an SSHServer, which ends with the test.
func ServeSSH(t testing.TB) *SSHServer {
	t.Helper()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd, err = exec.LookPath("/usr/sbin/sshd") // not in the PATH of users
	}
	if err != nil {
		Missing(t, "NOT RUN: no sshd, which is in the package openssh-server")
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
	s := &SSHServer{User: me.Username, ClientKey: filepath.Join(dir, "client"), Strange: filepath.Join(dir, "strange")}
	s.HostKey = Keygen(t, filepath.Join(plain, "host"))
	Keygen(t, s.Strange)
	authorized := filepath.Join(plain, "authorized")
	config := filepath.Join(plain, "config")
	for name, content := range map[string]string{
		authorized: Keygen(t, s.ClientKey) + "\n",
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
	s.Addr = listener.Addr().(*net.TCPAddr).AddrPort()
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

func (s *SSHServer) handle(n int, sshd, config string, conn *net.TCPConn) {
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

// Logged returns what the processes of all connections have logged.
func (s *SSHServer) Logged() string {
	var all strings.Builder
	s.log.Range(func(_, log any) bool { all.Write(log.(*bytes.Buffer).Bytes()); return true })
	return all.String()
}
