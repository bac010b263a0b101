//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package auth_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// TestLockFileIsNoLink: the owner of the directory cannot make another user, such as root, lock, create or give away a file
// elsewhere.
func TestLockFileIsNoLink(t *testing.T) {
	for name, make := range map[string]func(victim, lock string) error{
		"link":          os.Symlink,
		"dangling link": func(victim, lock string) error { return os.Symlink(victim+".absent", lock) },
		"pipe":          func(_, lock string) error { return syscall.Mkfifo(lock, 0o600) },
	} {
		dir := t.TempDir()
		victim, lock := filepath.Join(t.TempDir(), "victim"), filepath.Join(dir, "tokens.json.lock")
		if err := os.WriteFile(victim, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := make(victim, lock); err != nil {
			t.Fatal(err)
		}
		tokens := open(t, filepath.Join(dir, "tokens.json"))
		if _, _, err := tokens.Create(t.Context(), auth.Token{Name: "ci", Scopes: acme}); err == nil {
			t.Errorf("%s: a token was made", name)
		}
		if _, err := os.Lstat(victim + ".absent"); err == nil {
			t.Errorf("%s: a file was made elsewhere", name)
		}
	}
}

// TestOnlyWhatIsNewIsGivenAway: a file that root creates gets the owner of the directory. An existing file keeps its owner: it
// may be a hard link.
func TestOnlyWhatIsNewIsGivenAway(t *testing.T) {
	self, owner := os.Geteuid(), os.Geteuid()
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if self == 0 { // only root can give files away
		owner = 65534
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"new.json": owner, "there.json": self} {
		lock := filepath.Join(dir, name+".lock")
		if name == "there.json" {
			if err := os.Link(victim, lock); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			create(t, open(t, filepath.Join(dir, name)), auth.Token{Name: "ci" + time.Now().Format("150405.000000000"), Scopes: acme})
		}
		if got := ownerOf(t, lock); got != want {
			t.Errorf("%s belongs to %d; want %d", lock, got, want)
		}
		if got := ownerOf(t, filepath.Join(dir, name)); got != owner {
			t.Errorf("%s belongs to %d; want %d", name, got, owner)
		}
	}
}

func ownerOf(t *testing.T, name string) int {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
