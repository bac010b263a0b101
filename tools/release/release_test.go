package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An invalid version and a directory with files are refused before the build.
func TestRefused(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ version, out, want string }{
		"no version":       {"", t.TempDir(), `-version "" is not a version such as v0.1.0`},
		"without v":        {"0.1.0", t.TempDir(), `-version "0.1.0" is not`},
		"not complete":     {"v0.1", t.TempDir(), `-version "v0.1" is not`},
		"build metadata":   {"v0.1.0+1", t.TempDir(), `-version "v0.1.0+1" is not`},
		"directory in use": {"v0.1.0", full, "is not an empty directory"},
	} {
		r := release{version: c.version, out: c.out}
		if err := r.run("", "", true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// The commands in docs/how-to/install.md verify a signed release. They fail for a changed file and for changed checksums.
func TestVerify(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Fatalf("OpenSSH is needed: %v", err)
	}
	dir := t.TempDir()
	key := filepath.Join(t.TempDir(), "key")
	if _, err := output(exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key)); err != nil {
		t.Fatal(err)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("modproxy_0.1.0_linux_amd64", "program")
	r := release{version: "v0.1.0", out: dir}
	if err := r.writeSums(); err != nil {
		t.Fatal(err)
	}
	if err := r.sign(key); err != nil {
		t.Fatal(err)
	}
	write("allowed_signers", "modproxy-release "+string(public))

	m := regexp.MustCompile("(?s)<!-- test: tools/release -->\n```sh\n(.*?)```").FindStringSubmatch(readFile(t, "docs/how-to/install.md"))
	if m == nil {
		t.Fatal("docs/how-to/install.md has no block for this test")
	}
	verify := func() error {
		cmd := exec.Command("sh", "-e", "-c", m[1])
		cmd.Dir = dir
		_, err := output(cmd)
		return err
	}
	if err := verify(); err != nil {
		t.Fatal(err)
	}
	write("modproxy_0.1.0_linux_amd64", "another program")
	if verify() == nil {
		t.Error("a changed program is verified")
	}
	if err := os.Remove(filepath.Join(dir, sumsName)); err != nil {
		t.Fatal(err)
	}
	signature, err := os.ReadFile(filepath.Join(dir, sumsName+".sig"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, sumsName+".sig")); err != nil {
		t.Fatal(err)
	}
	if err := r.writeSums(); err != nil {
		t.Fatal(err)
	}
	write(sumsName+".sig", string(signature))
	if verify() == nil {
		t.Error("changed checksums are verified")
	}
}
