package tfconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/tfconfig"
)

// configuration writes the files of an archive in txtar form and returns the directory "main" among them.
func configuration(t *testing.T, text string) string {
	t.Helper()
	return filepath.Join(writeFiles(t, txtar.Parse([]byte(text)).Files), "main")
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimSpace(want); got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

// Directories on disk call each other by any path. A directory that cannot be read is a problem of its call.
func TestReadDirectory(t *testing.T) {
	dir := configuration(t, `
-- main/main.tf --
module "net" {
  source = "../modules/net"
  base   = "acme/base/aws"
}
module "same" {
  source = "../modules/net"
  base   = "acme/base/aws"
}
module "other" {
  source = "../modules/net"
  base   = "acme/other/aws"
}
module "none" { source = "./none" }
module "empty" { source = "../empty" }
module "pipe" { source = "../pipe" }
-- main/tests/a.tftest.hcl --
run "setup" {
  module { source = "./tests/setup" }
}
run "remote" {
  module {
    source  = "acme/test/aws"
    version = "1.0.0"
  }
}
-- main/tests/setup/main.tf --
module "s" { source = "acme/setup/aws" }
-- modules/net/main.tofu --
variable "base" { type = string }
module "inner" {
  source = "./inner"
  name   = var.base
}
-- modules/net/inner/main.tofu --
variable "name" { type = string }
module "base" { source = var.name }
-- modules/net/self.tofu --
module "self" { source = "../loop" }
-- modules/net/x.tftest.hcl --
run "not" {
  module { source = "acme/not/aws" }
}
-- modules/loop/main.tofu --
module "self" { source = "../net/../loop" }
-- modules/net/main.tf --
module "base" { source = "acme/terraform/aws" }
-- empty/README.md --
-- pipe/README.md --
`)
	if err := syscall.Mkfifo(filepath.Join(dir, "../pipe/main.tf"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "dir.tf"), 0o700); err != nil {
		t.Fatal(err)
	}
	for client, want := range map[tfconfig.Client]string{
		tfconfig.OpenTofu: `
acme/base/aws < main.tf:1 < ../modules/net/main.tofu:2 < ../modules/net/inner/main.tofu:2
acme/other/aws < main.tf:9 < ../modules/net/main.tofu:2 < ../modules/net/inner/main.tofu:2
acme/setup/aws < tests/a.tftest.hcl:2 < tests/setup/main.tf:1
acme/test/aws < tests/a.tftest.hcl:5
problem ../modules/loop/main.tofu:1: module "self" calls itself
problem main.tf:13: module "none": no directory "none"
problem main.tf:15: module "pipe": "../pipe": `,
		tfconfig.Terraform: `
acme/terraform/aws < main.tf:1 < ../modules/net/main.tf:1
acme/setup/aws < tests/a.tftest.hcl:2 < tests/setup/main.tf:1
acme/test/aws < tests/a.tftest.hcl:5
problem main.tf:13: module "none": no directory "none"
problem main.tf:15: module "pipe": "../pipe": `,
	} {
		c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, tfconfig.Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, call := range c.Calls {
			line := call.Source
			for _, at := range append(call.From, call.Pos) {
				line += " < " + at.Place()
			}
			lines = append(lines, line)
		}
		for _, p := range c.Problems {
			text, _, _ := strings.Cut("problem "+p.String(), "open ")
			lines = append(lines, text)
		}
		equal(t, strings.TrimSpace(strings.Join(lines, "\n")), want)
	}
	for _, name := range []string{"../gone", "../empty"} {
		if c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), filepath.Join(dir, name), tfconfig.Options{Client: tfconfig.OpenTofu}); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A directory that calls itself through links is one problem, and is read once.
func TestReadDirectoryLoop(t *testing.T) {
	dir := configuration(t, `
-- main/main.tf --
module "a" { source = "./loop" }
module "b" { source = "./inner" }
module "c" { source = "acme/c/aws" }
-- main/inner/main.tf --
module "d" { source = "./up" }
`)
	if err := errors.Join(os.Symlink(".", filepath.Join(dir, "loop")), os.Symlink("..", filepath.Join(dir, "inner/up"))); err != nil {
		t.Fatal(err)
	}
	c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, tfconfig.Options{Client: tfconfig.Terraform})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, strings.Join(lines(c), "\n"), `
main.tf:3 c: acme/c/aws ""
problem main.tf:1: module "a" calls itself: "loop" is a link to "."
problem inner/main.tf:1: module "d" calls itself: "inner/up" is a link to "."
`)
}

// If a called directory cannot be read, that is a problem of the call, and the other directories are read.
func TestReadDirectoryDeep(t *testing.T) {
	dir := configuration(t, `
-- main/main.tf --
module "deep" { source = "../deep" }
module "empty" { source = "../empty" }
module "net" { source = "../net" }
-- empty/README.md --
-- net/main.tf --
module "c" { source = "acme/c/aws" }
-- deep/main.tf --
`+strings.Repeat("a {\n", levels))
	c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, tfconfig.Options{Client: tfconfig.Terraform})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, strings.Join(lines(c), "\n"), `
../net/main.tf:1 c: acme/c/aws "" from main.tf:3
problem main.tf:1: module "deep": "../deep": invalid: its configuration is nested too deeply
`)
}

// Values of variables come from the files that OpenTofu reads automatically, the given files, and the command line. Later ones take
// precedence.
func TestReadDirectoryVariables(t *testing.T) {
	dir := configuration(t, `
-- main/main.tf --
variable "a" {
  default = "default"
  const   = true
}
variable "b" {
  default = "default"
  const   = true
}
variable "c" {
  default = "default"
  const   = true
}
variable "d" {
  default = "default"
  const   = true
}
variable "e" {
  default = "default"
  const   = true
}
module "a" { source = "acme/${var.a}/aws" }
module "b" { source = "acme/${var.b}/aws" }
module "c" { source = "acme/${var.c}/aws" }
module "d" { source = "acme/${var.d}/aws" }
module "e" { source = "acme/${var.e}/aws" }
-- main/terraform.tfvars --
b = "terraform"
c = "terraform"
d = "terraform"
-- main/z.auto.tfvars.json --
{"c": "auto", "e": "auto"}
-- main/other.tfvars --
a = "other"
-- given.tfvars --
d = "given"
e = "given"
a = uuid()
x =
`)
	read := func(client tfconfig.Client, o tfconfig.Options, files ...string) string {
		t.Helper()
		o.Client = client
		c, err := tfconfig.NewReader(nil, 0).ReadDirectory(t.Context(), dir, o, files...)
		if err != nil {
			return err.Error()
		}
		var lines []string
		for _, call := range c.Calls {
			lines = append(lines, strings.TrimPrefix(call.Source, "acme/")+call.Dynamic)
		}
		for _, p := range c.Problems {
			lines = append(lines, strings.TrimPrefix(p.String(), filepath.Dir(dir)))
		}
		return strings.Join(lines, "\n")
	}
	given := filepath.Join(dir, "../given.tfvars")
	for _, client := range []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu} {
		equal(t, read(client, tfconfig.Options{Environment: map[string]string{"a": "environment", "b": "environment"}}), `
environment/aws
terraform/aws
auto/aws
terraform/aws
auto/aws
`)
		equal(t, read(client, tfconfig.Options{Given: map[string]string{"e": "line"}}, given), `
its source refers to var.a, which cannot be evaluated: Function calls not allowed
terraform/aws
auto/aws
given/aws
line/aws
/given.tfvars:4: Invalid expression
`)
		if got := read(client, tfconfig.Options{}, given+".gone"); !strings.Contains(got, "no such file") {
			t.Errorf("a file that is not there: %s", got)
		}
	}
}
