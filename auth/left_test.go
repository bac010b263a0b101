package auth_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// TestWhatWasLeftIsRemoved: the next change removes the temporary files of a killed process, and no other files.
func TestWhatWasLeftIsRemoved(t *testing.T) {
	dir := t.TempDir()
	tokens, keys := filepath.Join(dir, "tokens.json"), filepath.Join(dir, "keys.json")
	create(t, open(t, tokens), auth.Token{Name: "ci", Scopes: acme})
	if _, err := auth.OpenSigner(t.Context(), keys, auth.SignerConfig{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tokens.json.1.tmp", "keys.json.2.tmp", "keys.yaml.1.tmp", "tokens.json.old"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	create(t, open(t, tokens), auth.Token{Name: "other", Scopes: acme})
	if err := auth.RotateKey(t.Context(), keys, time.Now()); err != nil {
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
	if want := []string{"keys.json", "keys.json.lock", "keys.yaml.1.tmp", "tokens.json", "tokens.json.lock", "tokens.json.old"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
