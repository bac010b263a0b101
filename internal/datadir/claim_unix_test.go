//go:build unix && !solaris && !aix

package datadir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// The user that runs a verb need not trust the owner of the data directory: through a link or a pipe in it, no file elsewhere is
// emptied, changed or created.
func TestClaimIsNoLink(t *testing.T) {
	for name, plant := range map[string]func(victim, there string) error{
		"link":          os.Symlink,
		"dangling link": func(victim, there string) error { return os.Symlink(victim+".absent", there) },
		"other name":    os.Link,
		"pipe":          func(_, there string) error { return syscall.Mkfifo(there, 0o600) },
	} {
		dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
		const text = "precious"
		must(t, os.WriteFile(victim, []byte(text), 0o644))
		must(t, plant(victim, filepath.Join(dir, lockName)))
		if c, err := NewClaim(dir); err == nil {
			t.Errorf("%s: it was claimed", name)
			c.Close()
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
