package lock_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/lock"
)

// install writes files below a new directory, and modules.json at the client's path.
func install(t testing.TB, manifest string, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if manifest != "" {
		write(t, filepath.Join(dir, ".terraform/modules/modules.json"), manifest)
	}
	for name, text := range files {
		write(t, filepath.Join(dir, ".terraform/modules", name), text)
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// record returns the entry of one module in a manifest.
func record(key, source, version, dir string) string {
	return fmt.Sprintf(`{"Key":%q,"Source":%q,"Version":%q,"Dir":%q}`, key, source, version, dir)
}

func manifest(records ...string) string {
	return `{"Modules":[` + strings.Join(append([]string{record("", "", "", ".")}, records...), ",") + `]}`
}

const (
	vpcSource = "registry.example.com/acme/vpc/aws"
	installed = ".terraform/modules/"
)

func TestRead(t *testing.T) {
	nested := vpc.At("1.2.0").NestedSource("ab", modproxy.NewSum([32]byte{7})).FullVersion()
	dir := install(t, manifest(
		record("net", vpcSource+"//modules/x", "1.2.0", installed+"net/modules/x"),
		record("net.sub", "./y", "", installed+"net/modules/x/y"),
		record("net.sub.up", "../..", "", installed+"net/modules"),
		record("net.sub.reg", vpcSource, "1.3", installed+"net.sub.reg"),
		record("named", vpcSource, "1.4.0", installed+"named/modules/a"),
		record("both", vpcSource+"//x", "1.4.0", installed+"both/modules/a/x"),
		record("local", "./local", "", "local"),
		record("git", "git::https://git.example.com/x.git", "", installed+"git/sub"),
		record("net.dots", "./.gitx/y.git", "", installed+"net/modules/x/.gitx/y.git"),
		record("own", "./.git/x", "", ".git/x"),
		record("old", "github.com/acme/vpc", "", installed+"old"),
		record("nested", "https://modules.example.com/x/registry.example.com~/v1/modules/acme/vpc/aws/"+nested+"/vpc-aws-"+nested+".tar.gz//.a/b", "", installed+"nested/.a/b"),
		record("older", "github.com/acme/vpc//aws", "", installed+"older/aws"),
	), nil)
	calls, others, err := lock.Read(dir, ".terraform")
	want := []lock.Call{
		{"net", vpc.At("1.2.0"), filepath.Join(dir, installed, "net"), ""},
		{"net.sub.reg", vpc.At("1.3.0"), filepath.Join(dir, installed, "net.sub.reg"), ""},
		{"named", vpc.At("1.4.0"), filepath.Join(dir, installed, "named"), "modules/a"},
		{"both", vpc.At("1.4.0"), filepath.Join(dir, installed, "both"), "modules/a"},
		{"nested", vpc.At(nested), filepath.Join(dir, installed, "nested"), ""},
	}
	if err != nil || !reflect.DeepEqual(calls, want) {
		t.Errorf("calls %v, %v; want %v", calls, err, want)
	}
	if len(others) != 3 || others[0] != "git" {
		t.Errorf("others %v", others)
	}
	if _, _, err := lock.Read(dir, filepath.Join(dir, ".terraform")); err != nil {
		t.Errorf("with an absolute data directory: %v", err)
	}
	if _, _, err := lock.Read(dir, "elsewhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no manifest: %v", err)
	}
}

// Compared files must be those that the client would load.
func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"elsewhere":          manifest(record("net", vpcSource, "1.2.0", "evil")),
		"of another":         manifest(record("net", vpcSource, "1.2.0", installed+"network")),
		"up":                 manifest(record("net", vpcSource, "1.2.0", installed+"net/../other")),
		"a key with a path":  manifest(record("../net", vpcSource, "1.2.0", installed+"../net")),
		"an empty name":      manifest(record("net..x", vpcSource, "1.2.0", installed+"net..x")),
		"twice":              manifest(record("net", vpcSource, "1.2.0", installed+"net"), record("net", vpcSource, "1.2.0", installed+"net")),
		"local elsewhere":    manifest(record("net", vpcSource, "1.2.0", installed+"net"), record("net.x", "./x", "", "x")),
		"local of nobody":    manifest(record("net.x", "./x", "", "x")),
		"another root":       `{"Modules":[` + record("", "", "", "evil") + `]}`,
		"no host":            manifest(record("net", "acme/vpc/aws", "1.2.0", installed+"net")),
		"another directory":  manifest(record("net", vpcSource+"//modules/x", "1.2.0", installed+"net/modules/y")),
		"part of its name":   manifest(record("net", vpcSource+"//x", "1.2.0", installed+"net/modules/prefix-x")),
		"no version":         manifest(record("net", vpcSource, "newest", installed+"net")),
		"git elsewhere":      manifest(record("net", "git::https://git.example.com/x.git", "", "evil")),
		"in git's own":       manifest(record("net", vpcSource+"//.git/evil", "1.2.0", installed+"net/.git/evil")),
		"git's own":          manifest(record("net", vpcSource, "1.2.0", installed+"net/.GIT")),
		"local in git's own": manifest(record("net", vpcSource, "1.2.0", installed+"net"), record("net.x", "./.git/x", "", installed+"net/.git/x")),
		"of git, in another": manifest(record("git", "git::https://git.example.com/x.git", "", installed+"git"), record("git.x", "../net/.git/x", "", installed+"net/.git/x")),
		"version left out":   manifest(record("net", vpcSource, "1.2.0", installed+"net"), record("two", vpcSource, "", installed+"two")),
		"of a default host":  manifest(record("net", "acme/vpc/aws//x", "", installed+"net/x")),
		"not JSON":           `{"Modules":[`,
		"another kind":       `{"Modules":"none"}`,
		"a key to obey":      `{"Modules":[{"Key":"a\u001b[2K","Source":"git::https://git.example.com/x.git","Dir":".terraform/modules/a\u001b[2K"}]}`,
		"lines":              `{"Modules":[{"Key":"net","Source":"` + vpcSource + `","Version":"1.2.0","Dir":".terraform/modules/net/a\nb"}]}`,
		"a key that escapes": manifest(record(`a\b`, vpcSource, "1.2.0", installed+`a\b`)),
	} {
		if calls, _, err := lock.Read(install(t, text, nil), ".terraform"); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v, %v; want ErrInvalid", name, calls, err)
		}
	}
}

// For any manifest, all compared files are below the directory where clients install.
func FuzzRead(f *testing.F) {
	f.Add(manifest(record("net", vpcSource, "1.2.0", installed+"net"), record("net.x", "./x", "", installed+"net/x")))
	f.Add(manifest(record("..", vpcSource, "1.2.0", ".terraform")))
	dir := f.TempDir()
	modules := filepath.Join(dir, ".terraform", "modules")
	if err := os.MkdirAll(modules, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(filepath.Join(modules, "modules.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		calls, _, err := lock.Read(dir, ".terraform")
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		for _, c := range calls {
			if filepath.Dir(c.Package) != modules {
				t.Fatalf("%q is in %q", c.Key, c.Package)
			}
		}
	})
}
