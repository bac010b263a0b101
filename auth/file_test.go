package auth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// TestRevocationCountsElsewhere: the server notices a revocation by another process. It looks at most once a second, and at
// least every five.
func TestRevocationCountsElsewhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	text, _ := create(t, open(t, path), auth.Token{Name: "ci", Scopes: acme})
	server := open(t, path)
	now := time.Now()
	if _, err := server.Verify(text, now); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path).Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Verify(text, now.Add(time.Second)); !strings.Contains(why(err), "revoked") {
		t.Errorf("after a second: %v", err)
	}
}

// TestNewTokenCountsAtOnce: a token that another process has just created is valid, even right after a look at the file.
func TestNewTokenCountsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	server := open(t, path)
	unknown, _ := create(t, open(t, filepath.Join(t.TempDir(), "other.json")), auth.Token{Name: "x", Scopes: acme})
	for i := range 20 {
		if _, err := server.Verify(unknown, time.Now()); !errors.Is(err, modproxy.ErrUnauthorized) {
			t.Error(err)
		}
		name := fmt.Sprint("t", i)
		text, _ := create(t, open(t, path), auth.Token{Name: name, Scopes: acme})
		if p, err := server.Verify(text, time.Now()); err != nil || p.Name != name {
			t.Errorf("%s: %v (%s)", name, err, why(err))
		}
	}
}

// TestRevocationCountsForAll: concurrent requests notice the change as well.
func TestRevocationCountsForAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	text, _ := create(t, open(t, path), auth.Token{Name: "ci", Scopes: acme})
	server := open(t, path)
	if _, err := open(t, path).Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(6 * time.Second)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := server.Verify(text, late); !errors.Is(err, modproxy.ErrUnauthorized) {
				t.Errorf("after six seconds: %v", err)
			}
		})
	}
	all.Wait()
}

func TestDamagedFileLetsNobodyIn(t *testing.T) {
	for name, harm := range map[string]func(path string, content []byte) error{
		"gone":      func(path string, _ []byte) error { return os.Remove(path) },
		"empty":     func(path string, _ []byte) error { return os.Truncate(path, 0) },
		"cut":       func(path string, b []byte) error { return os.Truncate(path, int64(len(b)/2)) },
		"a flip":    func(path string, b []byte) error { return os.WriteFile(path, flip(b), 0o600) },
		"widened":   func(path string, b []byte) error { return os.WriteFile(path, widen(b), 0o600) },
		"followed":  func(path string, b []byte) error { return os.WriteFile(path, append(b, "{}"...), 0o600) },
		"directory": func(path string, _ []byte) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"too large": func(path string, b []byte) error {
			return os.WriteFile(path, append(b, strings.Repeat(" ", 8<<20)...), 0o600)
		},
	} {
		path := filepath.Join(t.TempDir(), "tokens.json")
		server := open(t, path)
		text, _ := create(t, server, auth.Token{Name: "ci", Scopes: acme})
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := harm(path, append([]byte(nil), content...)); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		_, err = server.Verify(text, now.Add(time.Second))
		if !errors.Is(err, modproxy.ErrUnavailable) || strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if err := server.Check(); !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, _, err := server.Create(t.Context(), auth.Token{Name: "new", Scopes: acme}); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%s: created beside what cannot be read: %v", name, err)
		}
		if _, err := auth.OpenTokens(path); (err == nil) != (name == "gone") {
			t.Errorf("%s: opened anew: %v", name, err)
		}
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Verify(text, now.Add(2*time.Second)); err != nil {
			t.Errorf("%s: put back: %v", name, err)
		}
	}
}

func flip(b []byte) []byte {
	i := strings.Index(string(b), `"id": "`) + len(`"id": "`)
	b[i] ^= 'a' ^ 'b'
	return b
}

func widen(b []byte) []byte {
	return []byte(strings.Replace(string(b), `"corp/acme"`, `"*"`, 1))
}

// TestFileMayBeIndented: white space does not affect the checksum.
func TestFileMayBeIndented(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	text, _ := create(t, open(t, path), auth.Token{Name: "ci@a.b", Scopes: acme})
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("\n", " ", "\t", "").Replace(string(content))
	if err := os.WriteFile(path, []byte(plain), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, path).Verify(text, time.Now()); err != nil {
		t.Error(err)
	}
}
