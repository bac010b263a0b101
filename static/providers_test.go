package static_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/static"
)

var (
	toy   = modproxy.NewProvider("xn--bcher-kva.example", "acme", "toy")
	linux = modproxy.Platform{OS: "linux", Arch: "amd64"}
)

// zipOf returns an archive with a program and one more file with the given mode.
func zipOf(t *testing.T, name string, mode fs.FileMode) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, mode := range map[string]fs.FileMode{"terraform-provider-toy_v1.0.0": 0o755, name: mode} {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		h.SetMode(mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(f, name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every package in a mirror is in its documents, with the hashes that were ever known, and under both names of its
// host.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	s, content := open(t, dir), zipOf(t, "docs/README", 0o644)
	v := toy.At("1.0.0-rc1").ForPlatform(linux)
	if err := s.AddProvider(v, digest(content), "h1:one h1:two", strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	if has := s.Has(); len(has) != 1 || has[0] != digest(content) {
		t.Fatalf("it has %v", has)
	}
	for _, v := range []modproxy.Ref{toy.At("1.0.0-rc1").ForPlatform(modproxy.Platform{OS: "plan9", Arch: "mips"}), toy.At("2.0.0").ForPlatform(linux)} {
		if err := s.AddProvider(v, digest(content), "", nil); err != nil { // with the same content
			t.Fatal(err)
		}
	}
	held, err := s.Finish("")
	if err != nil || held.Packages != 3 || !strings.Contains(held.Installation(), `"bücher.example/*/*"`) {
		t.Errorf("Finish: %+v, %v", held, err)
	}
	at := filepath.Join(dir, "providers/xn--bcher-kva.example/acme/toy") // as clients request it from a web server
	if got := read(t, at, "index.json"); got != `{"versions":{"1.0.0-rc1":{},"2.0.0":{}}}`+"\n" {
		t.Errorf("index.json: %s", got)
	}
	zh := "zh:" + digest(content).String()
	want := `{"archives":{"linux_amd64":{"url":"terraform-provider-toy_1.0.0-rc1_linux_amd64.zip","hashes":["` + zh + `","h1:one","h1:two"]},` +
		`"plan9_mips":{"url":"terraform-provider-toy_1.0.0-rc1_plan9_mips.zip","hashes":["` + zh + `"]}}}` + "\n"
	if got := read(t, at, "1.0.0-rc1.json"); got != want {
		t.Errorf("1.0.0-rc1.json: %s\nwant %s", got, want)
	}
	if got := read(t, dir, "providers/bücher.example/acme/toy/terraform-provider-toy_2.0.0_linux_amd64.zip"); got != content {
		t.Errorf("%d bytes", len(got))
	}
}

// An unpacked package has its files with their modes, all or none, and is found again by the next Open.
func TestUnpacked(t *testing.T) {
	dir := t.TempDir()
	s, err := static.Open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	v, content := toy.At("1.0.0").ForPlatform(linux), zipOf(t, "docs/README", 0o640)
	for range 2 { // another package in its place
		if err := s.AddProvider(v, digest(content), "", strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "providers/bücher.example/acme/toy/1.0.0/linux_amd64")
	for name, mode := range map[string]fs.FileMode{"terraform-provider-toy_v1.0.0": 0o755, "docs/README": 0o640} {
		if info, err := os.Stat(filepath.Join(at, name)); err != nil || info.Mode() != mode || read(t, at, name) != name {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if s, err = static.Open(dir, true); err != nil || len(s.HasDirectories()) != 1 {
		t.Fatalf("it has %v, %v", s.HasDirectories(), err)
	}
	hashes := modproxy.Hashes(s.HasDirectories()[0])
	for _, version := range []string{"1.0.0", "2.0.0"} { // with the same files
		if err := s.AddProvider(toy.At(version).ForPlatform(linux), digest(content), hashes, nil); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"../../evil", "/evil", "docs/../../evil", "terraform-provider-toy_v1.0.0/evil"} {
		evil := zipOf(t, name, 0o644)
		if err := s.AddProvider(toy.At("3.0.0").ForPlatform(linux), digest(evil), "", strings.NewReader(evil)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	latin := zipOf(t, "caf\xe9/x", 0o644) // a name that is not UTF-8
	if err := s.AddProvider(toy.At("4.0.0").ForPlatform(linux), digest(latin), "", strings.NewReader(latin)); err != nil {
		t.Error(err)
	}
	known := slices.DeleteFunc(s.HasDirectories(), func(sum modproxy.Sum) bool { return modproxy.Hashes(sum) == hashes })
	if err := s.AddProvider(toy.At("5.0.0").ForPlatform(linux), digest(latin), modproxy.Hashes(known[0]), nil); err != nil {
		t.Error(err)
	}
	if text := read(t, dir, "providers/bücher.example/acme/toy/5.0.0/linux_amd64/caf\xe9/x"); text != "caf\xe9/x" {
		t.Errorf("5.0.0 has %q", text)
	}
	link := zipOf(t, "link", fs.ModeSymlink|0o777)
	if err := s.AddProvider(toy.At("3.0.0").ForPlatform(linux), digest(link), "", strings.NewReader(link)); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a link: %v", err)
	}
	held, err := s.Finish("")
	if err != nil || held.Packages != 4 || held.NetworkInstallation("https://example.com") != "" {
		t.Errorf("Finish: %+v, %v", held, err)
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "providers/*/acme/toy/3.0.0*")); len(found) > 0 {
		t.Errorf("there are %v", found)
	}
	if _, err := os.Lstat(filepath.Join(dir, ".unpacking")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was unpacked stays: %v", err)
	}
}

// Names that cannot be file names are refused.
func TestProviderRefused(t *testing.T) {
	s, content := open(t, t.TempDir()), zipOf(t, "docs", 0o644)
	other := toy
	other.Host = ".."
	for what, v := range map[string]modproxy.Ref{
		"a release":            toy.At("1.0.0"),
		"a module":             vpc.At("1.0.0"),
		"a version as spelled": toy.At("v1.0.0").ForPlatform(linux),
		"a host above":         other.At("1.0.0").ForPlatform(linux),
		"no type":              modproxy.NewProvider("example.com", "acme", "..").At("1.0.0").ForPlatform(linux),
	} {
		if err := s.AddProvider(v, digest(content), "", strings.NewReader(content)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	v := toy.At("1.0.0").ForPlatform(linux)
	if err := s.AddProvider(v, digest("another"), "", strings.NewReader(content)); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("another package: %v", err)
	}
}
