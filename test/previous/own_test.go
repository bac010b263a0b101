package previous_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

const ownConfig = `upstreams: [{host: registry.acme.example}]
listen: 127.0.0.1:0
modules_host: own.acme.example
modules: [{address: corp/vpc/aws, source: "git::https://git.acme.example/corp/vpc.git"}]
`

// TestOwnHost: today's program records the host of own modules in the ledger. If the previous version does not know such an entry, it
// refuses the ledger, its backup and its export, says why, and changes nothing. Otherwise it can write behind the entry. Afterwards
// today's program opens the ledger with all entries.
func TestOwnHost(t *testing.T) {
	t.Parallel()
	p := built(t)
	base := t.TempDir()
	config, saved, exported := filepath.Join(base, "own.yaml"), filepath.Join(base, "saved"), filepath.Join(base, "exported")
	if err := os.WriteFile(config, []byte(ownConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(base, "written")
	if err := os.Mkdir(written, 0o700); err != nil {
		t.Fatal(err)
	}
	call := func(program, data string, args ...string) (string, error) {
		cmd := exec.Command(program, append(args, "--data", data)...)
		cmd.Env = append(os.Environ(), "MODPROXY_CONFIG=", "HOME="+base)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(data string, args ...string) string {
		t.Helper()
		out, err := call(p.today, data, args...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return out
	}
	block := []string{"block", "registry.acme.example/acme/vpc/aws", "--reason", "an open bucket", "--force"}
	must(written, block...)
	head := read(t, written, "ledger", "head")
	serving, err := rig.Start(exec.Command(p.today, "serve", "--config", config, "--data", written), filepath.Join(base, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serving.URL(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := serving.Stop(); err != nil {
		t.Fatal(err)
	}
	must(written, "backup", saved)
	must(written, "ledger", "export", exported)
	key := strings.TrimSpace(must(written, "ledger", "key"))

	for _, c := range []struct {
		what string
		head string // replaces the head: the entry is then behind it, as after a crash; empty: it stays
		why  string // of the error
	}{
		{"signed", "", "newer modproxy"},
		{"behind the head", head, "does not know its form"},
	} {
		data := filepath.Join(base, c.what)
		if err := os.CopyFS(data, os.DirFS(written)); err != nil {
			t.Fatal(err)
		}
		if c.head != "" {
			if err := os.WriteFile(filepath.Join(data, "ledger", "head"), []byte(c.head), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before := ledgerFiles(t, data)
		if out, err := call(p.previous, data, block...); err != nil {
			if !strings.Contains(out, c.why) && !strings.Contains(out, "newer modproxy") {
				t.Errorf("%s: %v\n%s", c.what, err, out)
			}
			if ledgerFiles(t, data) != before {
				t.Errorf("%s: the previous version refused the ledger, but changed it", c.what)
			}
		}
		must(data, block...)
		must(data, "verify")
		if out := must(data, "ledger", "export", "-"); !strings.Contains(out, "\nown own.acme.example\n") {
			t.Errorf("%s: the host is missing:\n%s", c.what, out)
		}
	}
	imported := filepath.Join(base, "imported")
	if err := os.Mkdir(imported, 0o700); err != nil {
		t.Fatal(err)
	}
	for data, args := range map[string][]string{
		filepath.Join(base, "restored"): {"restore", saved},
		imported:                        {"ledger", "import", exported, "--key", key},
	} {
		out, err := call(p.previous, data, args...)
		if err != nil && !strings.Contains(out, "newer modproxy") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
		log, _ := os.ReadFile(filepath.Join(data, "ledger", "log"))
		if bytes.Contains(log, []byte("\nown own.acme.example\n")) != (err == nil) {
			t.Errorf("%v: %v, and the ledger is\n%s", args, err, log)
		}
	}
}

// ledgerFiles returns the content of the files of a ledger.
func ledgerFiles(t *testing.T, data string) string {
	t.Helper()
	return read(t, data, "ledger", "log") + read(t, data, "ledger", "head") + read(t, data, "ledger", "key")
}
