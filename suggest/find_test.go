package suggest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/suggest"
	"github.com/modproxy/modproxy/tfconfig"
)

const tree = `
-- main.tf --
module "vpc" {
  source = "git::https://git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3"
}
module "local" { source = "./modules/x" }
-- main.tf.json --
{
  "module": {
    "eks": [{"source": "git::https://git.example.com/acme/terraform-aws-eks.git?ref=v1.0.0"}],
    "net": {"source": "git::https://git.example.com/acme/terraform-aws-net.git?ref=v2.0.0"}
  }
}
-- only.tofu --
locals { ref = "v3.0.0" }
module "vpc3" { source = "git::https://git.example.com/acme/terraform-aws-vpc.git?ref=${local.ref}" }
-- modules/x/main.tofu.json --
{"variable": {"ref": {}}, "module": {"unknown": {"source": "git::https://git.example.com/acme/x.git?ref=${var.ref}"}}}
-- examples/a/main.tf --
module "log" { source = "git::https://git.example.com/acme/terraform-aws-log.git?ref=v1.0.0" }
-- broken/main.tf --
module "vpc" {
-- broken/good.tf --
module "dns" { source = "git::https://git.example.com/acme/terraform-aws-dns.git?ref=v1.0.0" }
-- terragrunt.hcl --
terraform { source = "git::https://git.example.com/acme/terraform-aws-vpc.git?ref=v1.2.3" }
-- .terraform/modules/a/main.tf --
module "not" { source = "git::https://git.example.com/acme/terraform-aws-not.git?ref=v1.0.0" }
-- .git/x/main.tf --
module "not" { source = "git::https://git.example.com/acme/terraform-aws-not.git?ref=v1.0.0" }
`

const found = `
acme/{name}/{system} = git::https://git.example.com/acme/terraform-{system}-{name}.git (5)
2: modules.example.com/acme/vpc/aws 1.2.3
3: modules.example.com/acme/eks/aws 1.0.0
4: modules.example.com/acme/net/aws 2.0.0
2: modules.example.com/acme/vpc/aws 3.0.0
1: modules.example.com/acme/dns/aws 1.0.0
1: modules.example.com/acme/log/aws 1.0.0
1: : its source refers to var.ref, which has no value
`

// write writes a tree, with the ends of lines of Unix or Windows.
func write(t *testing.T, lineEnd string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(tree)).Files {
		name := filepath.Join(dir, f.Name)
		err := os.MkdirAll(filepath.Dir(name), 0o700)
		if err == nil {
			err = os.WriteFile(name, []byte(strings.ReplaceAll(string(f.Data), "\n", lineEnd)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Find reads every configuration of a tree, once, and reports what it cannot read.
func TestFind(t *testing.T) {
	for _, lineEnd := range []string{"\n", "\r\n"} {
		t.Run(fmt.Sprintf("%q", lineEnd), func(t *testing.T) {
			dir := write(t, lineEnd)
			if err := os.Symlink(".", filepath.Join(dir, "loop")); err != nil {
				t.Fatal(err)
			}
			calls, problems, err := suggest.Find(t.Context(), tfconfig.NewReader(nil, 0), dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := text(calls.Suggest(host)); got != strings.TrimPrefix(found, "\n") {
				t.Errorf("got\n%s\nwant%s", got, found)
			}
			if len(problems) != 1 || problems[0].File != filepath.Join(dir, "broken/main.tf") {
				t.Errorf("problems %v; want one of broken/main.tf", problems)
			}
		})
	}
}

// A directory or file that cannot be opened is a problem, and the others are read.
func TestFindUnreadable(t *testing.T) {
	dir := write(t, "\n")
	for _, name := range []string{"examples/a/link.tf", "broken/link.tf"} {
		if err := os.Symlink("none", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // the last path is longer than the system allows
		name := strings.Repeat("x", 250)
		if err := at.Mkdir(name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { below.Close() })
		at = below
	}
	calls, problems, err := suggest.Find(t.Context(), tfconfig.NewReader(nil, 0), dir)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, p := range problems {
		reasons = append(reasons, p.Text[strings.LastIndex(p.Text, ": ")+2:])
	}
	if want := []string{"no such file or directory", "no such file or directory", "file name too long"}; !slices.Equal(reasons, want) {
		t.Errorf("problems %v; want %v", problems, want)
	}
	if s := calls.Suggest(host); len(s.Changes) != 4 {
		t.Errorf("got\n%s\nwant the four calls of other directories", text(s))
	}
}

func TestFindErrors(t *testing.T) {
	reader := tfconfig.NewReader(nil, 0)
	if _, _, err := suggest.Find(t.Context(), reader, filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v; want ErrNotExist", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := suggest.Find(ctx, reader, write(t, "\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v; want Canceled", err)
	}
}

// The number of remembered calls has a bound.
func TestTooManyCalls(t *testing.T) {
	var calls suggest.Calls
	for i := range 60_000 {
		s := tfconfig.Source{Source: fmt.Sprintf("git::https://git.example.com/acme/x%d.git?ref=v1.0.0", i)}
		if err := calls.Add(s); err != nil {
			if i != 50_000 {
				t.Errorf("call %d: %v", i, err)
			}
			return
		}
	}
	t.Error("60,000 calls")
}
