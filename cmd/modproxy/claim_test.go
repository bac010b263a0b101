//go:build unix && !solaris && !aix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Who owns the data directory need not be who runs a verb: no file elsewhere is
// emptied, changed or made through what is there.
func TestClaimIsNoLink(t *testing.T) {
	for name, plant := range map[string]func(victim, there string) error{
		"link":          os.Symlink,
		"dangling link": func(victim, there string) error { return os.Symlink(victim+".absent", there) },
		"pipe":          func(_, there string) error { return syscall.Mkfifo(there, 0o600) },
	} {
		dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
		const text = `{"url": "http://127.0.0.1:1", "token": "x"}`
		if err := os.WriteFile(victim, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := plant(victim, filepath.Join(dir, serverName)); err != nil {
			t.Fatal(err)
		}
		if c, err := claimData(dir); err == nil {
			t.Errorf("%s: it was claimed", name)
			c.close()
		}
		if s, err := readServer(dir); err == nil {
			t.Errorf("%s: %+v is believed", name, s)
		}
		if now, err := os.ReadFile(victim); err != nil || string(now) != text {
			t.Errorf("%s: there is %q, %v", name, now, err)
		}
		if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: it is %v, %v", name, info.Mode(), err)
		}
		if _, err := os.Lstat(victim + ".absent"); err == nil {
			t.Errorf("%s: a file was made elsewhere", name)
		}
	}
}
