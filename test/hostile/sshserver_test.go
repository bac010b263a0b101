//go:build linux

package hostile_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// sshAddress is the address of all good ssh servers. At stallingAddress is one that stalls.
const (
	sshAddress      = goodNetwork + "70"
	stallingAddress = goodNetwork + "71"
)

// An sshServer runs OpenSSH, one process for each connection, for the user git and the repository network.git in its home directory.
type sshServer struct {
	dir, sshd string
	hostKey   string // in the form of known_hosts, without the name
}

func keygen(t *testing.T, file string) (public string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen, of OpenSSH: %v %s", err, out)
	}
	key, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(key))
}

// startSSH starts it, and creates the user git. It returns nil if the machine has no server.
func startSSH(t *testing.T) *sshServer {
	t.Helper()
	s := &sshServer{dir: t.TempDir(), sshd: "/usr/sbin/sshd"}
	whole, _ := os.ReadFile("/proc/self/uid_map")
	_, err := os.Stat(s.sshd)
	if err != nil || len(strings.Fields(string(whole))) < 3 || strings.Fields(string(whole))[2] == "1" {
		if os.Getenv("CI") == "true" || rig.Long() {
			t.Fatalf("no sshd, which is in the package openssh-server, or not root: %v", err)
		}
		shorter(t, "no ssh: its server needs root, or is not there")
		return nil
	}
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	s.hostKey = keygen(t, s.file("host"))
	authorized := keygen(t, s.file("client"))
	keygen(t, s.file("strange"))
	for name, text := range map[string]string{
		"authorized": authorized + "\n",
		"config": fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"+
			"KbdInteractiveAuthentication no\nAcceptEnv GIT_PROTOCOL\nPidFile none\nForceCommand git-shell -c \"$SSH_ORIGINAL_COMMAND\"\n"+
			"SetEnv HOME=%s\n", s.file("host"), s.file("authorized"), s.file("no-home")), // without the startup files of the user's shell
	} {
		if err := os.WriteFile(s.file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := rig.ReplaceFile("/etc/passwd", string(users)+"git:x:0:0:git:"+s.dir+":/bin/sh\n"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil { // required by sshd
		t.Fatal(err)
	}
	s.repository(t)
	l := listenSSH(t, sshAddress)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*net.TCPConn))
		}
	}()
	return s
}

func (s *sshServer) file(name string) string { return filepath.Join(s.dir, name) }

// repository makes network.git, with a commit at v1.0.0.
func (s *sshServer) repository(t *testing.T) {
	t.Helper()
	if err := os.Mkdir(s.file("work"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file("work/main.tf"), []byte("output \"from\" { value = \"ssh\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "-m", "x"},
		{"tag", "v1.0.0"}, {"clone", "-q", "--bare", ".", s.file("network.git")},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = s.file("work")
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
}

func (s *sshServer) serve(conn *net.TCPConn) {
	file, err := conn.File()
	conn.Close()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.Command(s.sshd, "-i", "-e", "-f", s.file("config"))
	cmd.Stdin, cmd.Stdout = file, file
	_ = cmd.Run() // its status is that of the connection
}

// listenSSH listens at the port of ssh until the test ends.
func listenSSH(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address+":22")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
