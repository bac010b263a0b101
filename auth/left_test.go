package auth_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// What a process that was killed has written and not renamed goes with the next
// change, and nothing else does.
func TestWhatWasLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	tokens, keys := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "keys.json")
	create(t, open(t, tokens), auth.TokenSpec{Name: "ci", Scopes: acme})
	if _, err := auth.OpenSigner(keys, auth.SignerConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".tokens.json.1", ".keys.json.2", ".keys.yaml", "tokens.json.old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create(t, open(t, tokens), auth.TokenSpec{Name: "other", Scopes: acme})
	if err := auth.RotateKey(keys, time.Now()); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := []string{".keys.yaml", "keys.json", "keys.json.lock", "tokens.json", "tokens.json.lock", "tokens.json.old"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
