//go:build unix

package systemd_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/internal/systemd"
)

// TestMain makes this binary a process that prints what Socket returns.
func TestMain(m *testing.M) {
	if os.Getenv("SYSTEMD_TEST") == "" {
		os.Exit(m.Run())
	}
	variable := func(name string) string {
		if name == "LISTEN_PID" && os.Getenv(name) == "own" {
			return strconv.Itoa(os.Getpid())
		}
		return os.Getenv(name)
	}
	switch socket, err := systemd.Socket(variable); {
	case err != nil:
		os.Stdout.WriteString(err.Error())
	case socket == nil:
		os.Stdout.WriteString("none")
	default:
		os.Stdout.WriteString(socket.Addr().String())
	}
	if left := os.Getenv("LISTEN_PID") + os.Getenv("LISTEN_FDS") + os.Getenv("LISTEN_FDNAMES"); left != "" {
		os.Stdout.WriteString(" and variables for children: " + left)
	}
}

func TestSocket(t *testing.T) {
	tcp, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	file := func(l interface{ File() (*os.File, error) }) *os.File {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	text, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	for name, c := range map[string]struct {
		pid, n string
		passed *os.File
		want   string
	}{
		"TCP":             {"own", "1", file(tcp), tcp.Addr().String()},
		"nothing":         {"", "", nil, "none"},
		"another process": {"1", "1", file(tcp), "none"},
		"two":             {"own", "2", file(tcp), `LISTEN_FDS: the service manager passed "2" sockets, and modproxy serves one`},
		"no number":       {"own", "x", file(tcp), `passed "x" sockets`},
		"Unix socket":     {"own", "1", file(unix), "the passed socket listens on unix, and not on TCP"},
		"file":            {"own", "1", text, "the passed socket: "},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "SYSTEMD_TEST=1", "LISTEN_PID="+c.pid, "LISTEN_FDS="+c.n, "LISTEN_FDNAMES=modproxy.socket")
		if c.passed != nil {
			cmd.ExtraFiles = []*os.File{c.passed}
		}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, errs.String())
		}
		if is := out.String(); !strings.Contains(is, c.want) || strings.Contains(is, "for children") {
			t.Errorf("%s: %q; want %q", name, is, c.want)
		}
	}
}

func TestNotify(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	if err := systemd.Notify(name, "READY=1"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 100)
	n, err := manager.Read(got)
	if err != nil || string(got[:n]) != "READY=1" {
		t.Errorf("%q, %v", got[:n], err)
	}
	manager.Close()
	if err := systemd.Notify(name, "STOPPING=1"); err == nil || !strings.HasPrefix(err.Error(), "NOTIFY_SOCKET: STOPPING=1: ") {
		t.Errorf("without a manager: %v", err)
	}
	if err := systemd.Notify("", "READY=1"); err != nil {
		t.Errorf("without a variable: %v", err)
	}
}
