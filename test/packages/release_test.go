//go:build linux

package packages_test

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// distVariable names the directory with two whole releases of one commit, built with separate caches. Only the long form
// builds them.
const distVariable = "PACKAGES_DIST"

// dist returns the directories of both releases.
func dist(t *testing.T) (first, second string) {
	t.Helper()
	dir := os.Getenv(distVariable)
	if dir == "" {
		rig.Missing(t, "only the long form builds a whole release: make release-check")
	}
	return filepath.Join(dir, "first"), filepath.Join(dir, "second")
}

// prepareRelease builds a whole release twice, the second time without what the first has cached.
func prepareRelease(dir string) error {
	key := filepath.Join(dir, "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key).CombinedOutput(); err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	if err := release("-version", builtVersion, "-commit", "HEAD", "-key", key, "-out", filepath.Join(dir, "first")); err != nil {
		return err
	}
	cache := os.Getenv("GOCACHE")
	defer os.Setenv("GOCACHE", cache)
	os.Setenv("GOCACHE", filepath.Join(dir, "cache"))
	err := release("-version", builtVersion, "-commit", "HEAD", "-key", key, "-out", filepath.Join(dir, "second"))
	return errors.Join(err, os.RemoveAll(filepath.Join(dir, "cache")), os.Setenv(distVariable, dir))
}

// Two builds have the same bytes, and the files are those that the documentation names.
func TestReleaseReproducible(t *testing.T) {
	first, second := dist(t)
	a, b := files(t, first), files(t, second)
	for name := range a {
		if !bytes.Equal(a[name], b[name]) {
			t.Errorf("%s differs between two builds", name)
		}
	}
	want := []string{
		"SHA256SUMS", "SHA256SUMS.sig", "modproxy-0.0.2-1.aarch64.rpm", "modproxy-0.0.2-1.x86_64.rpm", "modproxy_0.0.2.cdx.json",
		"modproxy_0.0.2_amd64.deb", "modproxy_0.0.2_arm64.deb",
		"modproxy_0.0.2_darwin_amd64_built-not-run", "modproxy_0.0.2_darwin_arm64_built-not-run",
		"modproxy_0.0.2_linux_amd64", "modproxy_0.0.2_linux_amd64.oci.cdx.json", "modproxy_0.0.2_linux_amd64.oci.tar",
		"modproxy_0.0.2_linux_arm64",
	}
	if got := slices.Sorted(maps.Keys(a)); !slices.Equal(got, want) || len(b) != len(a) {
		t.Errorf("a release has the files\n%v\nwant\n%v", got, want)
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		content, failed := os.ReadFile(filepath.Join(dir, entry.Name()))
		all[entry.Name()], err = content, errors.Join(err, failed)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// The programs are for their platforms, and those for Linux need no library. The program for arm64 runs in an emulator.
func TestReleasePrograms(t *testing.T) {
	dir, _ := dist(t)
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f, err := elf.Open(filepath.Join(dir, "modproxy_0.0.2_linux_"+arch))
		if err != nil {
			t.Fatal(err)
		}
		if libraries, err := f.ImportedLibraries(); f.Machine != machine || len(libraries) > 0 || err != nil {
			t.Errorf("linux/%s: built for %s, with the libraries %v: %v", arch, f.Machine, libraries, err)
		}
		f.Close()
	}
	for arch, cpu := range map[string]macho.Cpu{"amd64": macho.CpuAmd64, "arm64": macho.CpuArm64} {
		f, err := macho.Open(filepath.Join(dir, "modproxy_0.0.2_darwin_"+arch+"_built-not-run"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Cpu != cpu {
			t.Errorf("darwin/%s: built for %s", arch, f.Cpu)
		}
		f.Close()
	}
	emulator, err := exec.LookPath("qemu-aarch64-static")
	if err != nil {
		rig.Missing(t, "the program for arm64 was not run: qemu-user-static is needed: %v", err)
	}
	out, err := exec.CommandContext(t.Context(), emulator, filepath.Join(dir, "modproxy_0.0.2_linux_arm64"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "modproxy v0.0.2 (commit ") || !strings.Contains(string(out), "linux/arm64") {
		t.Errorf("modproxy version on arm64: %v\n%s", err, out)
	}
}

// The bills of materials name the linked modules and the Debian packages.
func TestReleaseBOM(t *testing.T) {
	dir, _ := dist(t)
	linked, err := os.ReadFile("../../tools/linked.txt")
	if err != nil {
		t.Fatal(err)
	}
	names := components(t, filepath.Join(dir, "modproxy_0.0.2.cdx.json"))
	for line := range strings.Lines(string(linked)) {
		if module := strings.TrimSpace(line); !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "size ") && !names[module] {
			t.Errorf("the bill of materials of the programs does not name %s", module)
		}
	}
	names = components(t, filepath.Join(dir, "modproxy_0.0.2_linux_amd64.oci.cdx.json"))
	for _, name := range []string{"git", "ca-certificates", "openssh-client", "libc6", "modproxy"} {
		if !names[name] {
			t.Errorf("the bill of materials of the image does not name %s", name)
		}
	}
}

func components(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct{ Components []struct{ Name string } }
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range bom.Components {
		names[c.Name] = true
	}
	return names
}
