package closure_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// acme routes one registry, which has two names, through the proxy, and nothing else.
type acme struct{}

func (acme) Upstream(m modproxy.Address) (modproxy.Address, error) {
	switch m.Host {
	case "registry.acme.example", "proxy.example.com":
		m.Host = "registry.acme.example"
		return m, nil
	}
	return m, fmt.Errorf("%s is not among upstreams", m.Host)
}

// fixture returns a registry with the modules acme/NAME/aws, and a directory whose root module is main.
func fixture(t *testing.T, text string) (w *closure.Walker, asked *registrytest.Memory, dir string) {
	t.Helper()
	var files []txtar.File
	modules := &txtar.Archive{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		if name, ok := strings.CutPrefix(f.Name, "acme/"); ok {
			module, file, _ := strings.Cut(name, "/")
			name, version, _ := strings.Cut(module, "@")
			modules.Files = append(modules.Files, txtar.File{Name: "modules/acme/" + name + "/aws/" + version + "/" + file, Data: f.Data})
			continue
		}
		files = append(files, f)
	}
	asked, err := registrytest.NewMemory("registry.acme.example", modules)
	if err != nil {
		t.Fatal(err)
	}
	return &closure.Walker{Registry: asked, Routes: acme{}, Reader: tfconfig.NewReader(nil, 0), AtOnce: 1}, asked, filepath.Join(writeFiles(t, files), "main")
}

// writeFiles writes files into a new directory and returns it.
func writeFiles(t *testing.T, files []txtar.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		name := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, f.Data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// walk returns the results of a walk from a directory, for both clients, as sorted lines.
func walk(t *testing.T, w *closure.Walker, dir string) string {
	t.Helper()
	var starts []closure.Start
	var lines []string
	for _, client := range []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu} {
		c, err := w.Reader.ReadDirectory(t.Context(), dir, tfconfig.Options{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range c.Problems {
			lines = append(lines, fmt.Sprintf("%s problem %s", client, p))
		}
		for _, call := range c.Calls {
			starts = append(starts, closure.Start{Client: client, Call: call})
		}
	}
	err := w.Walk(t.Context(), starts, func(f closure.Found) {
		line := fmt.Sprintf("%s %s", f.Client, f.Kind)
		if f.Kind == closure.Ready {
			line = "ready"
		}
		if f.Module.Name != "" {
			line += fmt.Sprintf(" %s %s", f.Module.Name, f.Module.Version)
		}
		if f.Subdir != "." {
			line += " " + f.Subdir
		}
		if f.Kind != closure.Ready {
			for _, step := range f.Chain {
				line += " < " + strings.ReplaceAll(step.String(), "registry.acme.example/acme/", "")
			}
		}
		if f.Err != nil {
			line += ": " + f.Err.Error()
		}
		lines = append(lines, line)
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return strings.ReplaceAll(strings.Join(lines, "\n"), "  ", " ")
}

func equal(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimSpace(want); got != want {
		t.Errorf("got\n%s\n\nwant\n%s", got, want)
	}
}

func TestWalk(t *testing.T) {
	w, asked, dir := fixture(t, `
-- main/main.tf --
module "net" {
  source  = "registry.acme.example/acme/net/aws"
  version = "~> 1.0"
}
module "again" {
  source  = "proxy.example.com/ACME/net/aws"
  version = "< 2"
}
module "local" { source = "../modules/x" }
-- modules/x/main.tf --
module "sub" {
  source  = "registry.acme.example/acme/net/aws//modules/sub"
  version = "1.1.0"
}
module "git" { source = "git::https://u:secret@git.acme.example/x.git?ref=v1" }
-- modules/x/x.tofu --
variable "v" { type = string }
module "more" {
  source  = "registry.acme.example/acme/base/aws"
  version = var.v
}
-- acme/net@1.0.0/main.tf --
-- acme/net@1.1.0/main.tf --
module "base" { source = "registry.acme.example/acme/base/aws" }
module "sub" { source = "./modules/sub" }
-- acme/net@1.1.0/modules/sub/main.tf --
module "up" { source = "../../../../../x" }
module "hostless" { source = "acme/base/aws" }
-- acme/net@2.0.0/main.tf --
-- acme/base@2.0.0-rc1/main.tf --
-- acme/base@1.0.0/main.tf --
`)
	equal(t, walk(t, w, dir), `
ready base 1.0.0
ready net 1.1.0
terraform bypass < main.tf:1 < net/aws 1.1.0: main.tf:2 < net/aws 1.1.0: modules/sub/main.tf:2: registry.terraform.io is not among upstreams
terraform bypass < main.tf:9 < ../modules/x/main.tf:5: its source is not a module of a registry
terraform chosen base 1.0.0 < main.tf:1 < net/aws 1.1.0: main.tf:1
terraform chosen net 1.1.0 < main.tf:1
terraform chosen net 1.1.0 modules/sub < main.tf:9 < ../modules/x/main.tf:1
terraform trouble < main.tf:1 < net/aws 1.1.0: main.tf:2 < net/aws 1.1.0: modules/sub/main.tf:1: module "up": its source "../../../../../x" is outside the package, where clients do not look
tofu bypass < main.tf:1 < net/aws 1.1.0: main.tf:2 < net/aws 1.1.0: modules/sub/main.tf:2: registry.opentofu.org is not among upstreams
tofu bypass < main.tf:9 < ../modules/x/main.tf:5: its source is not a module of a registry
tofu bypass < main.tf:9 < ../modules/x/x.tofu:2: its version refers to var.v, which has no value
tofu chosen base 1.0.0 < main.tf:1 < net/aws 1.1.0: main.tf:1
tofu chosen net 1.1.0 < main.tf:1
tofu chosen net 1.1.0 modules/sub < main.tf:9 < ../modules/x/main.tf:1
tofu trouble < main.tf:1 < net/aws 1.1.0: main.tf:2 < net/aws 1.1.0: modules/sub/main.tf:1: module "up": its source "../../../../../x" is outside the package, where clients do not look
`)
	if n := asked.Calls("versions"); n != 2 {
		t.Errorf("versions were asked for %d times", n)
	}
}

// A walk over modules that call each other in a cycle ends, and reports the cycle.
func TestWalkCycle(t *testing.T) {
	w, _, dir := fixture(t, `
-- main/main.tf --
module "a" { source = "registry.acme.example/acme/a/aws" }
module "b" { source = "registry.acme.example/acme/b/aws" }
module "d" { source = "registry.acme.example/acme/d/aws" }
-- acme/a@1.0.0/main.tf --
module "b" { source = "registry.acme.example/acme/b/aws" }
-- acme/b@1.0.0/main.tf --
module "c" { source = "./c" }
-- acme/b@1.0.0/c/main.tf --
module "c" { source = "registry.acme.example/acme/c/aws" }
-- acme/c@1.0.0/main.tf --
module "a" { source = "registry.acme.example/acme/a/aws" }
-- acme/d@1.0.0/main.tf --
variable "n" { default = "x" }
module "d" {
  source = "registry.acme.example/acme/d/aws//${trimprefix(var.n, var.n)}"
  n      = "${var.n}x"
}
`)
	w.AtOnce = 8
	rounds := 1
	if rig.Long() {
		rounds = 3
	}
	for range rounds {
		got := walk(t, w, dir)
		for _, want := range []string{
			"a/aws 1.0.0 calls itself, through registry.acme.example/acme/b/aws 1.0.0, registry.acme.example/acme/c/aws 1.0.0",
			"tofu trouble d 1.0.0 < main.tf:3 < ", "d/aws 1.0.0: it is called with more than 16 sets of arguments",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\ndoes not contain %s", got, want)
			}
		}
		if n := strings.Count(got, "calls itself"); n != 2 {
			t.Errorf("%d cycles in\n%s", n, got)
		}
	}
}

// A chain of modules longer than the bound is reported once for each client.
func TestWalkDeep(t *testing.T) {
	text := "-- main/main.tf --\n" + `module "m" { source = "registry.acme.example/acme/m0/aws" }` + "\n"
	depth := 10
	if rig.Long() {
		depth = 100 // the default of Depth
	}
	for i := range depth + 20 {
		text += fmt.Sprintf("-- acme/m%d@1.0.0/main.tf --\nmodule \"m\" { source = \"registry.acme.example/acme/m%d/aws\" }\n", i, i+1)
	}
	w, _, dir := fixture(t, text)
	if depth < 100 {
		w.Depth = depth
	}
	got := walk(t, w, dir)
	if n := strings.Count(got, "chosen"); n != 2*depth {
		t.Errorf("%d versions were chosen", n)
	}
	if n := strings.Count(got, fmt.Sprintf("more than %d modules call each other", depth)); n != 2 || strings.Count(got, "trouble") != n {
		t.Errorf("%d times in\n%.2000s", n, got)
	}
}

// If a package has more calls than the bound, the walk reports that once. For a directory it is an error.
func TestWalkWide(t *testing.T) {
	var wide, called strings.Builder
	for i := range 5_001 {
		if i%5000 == 0 {
			fmt.Fprintf(&wide, "-- wide/%d.tf --\n", i)
			fmt.Fprintf(&called, "-- acme/wide@1.0.0/%d.tf --\n", i)
		}
		call := fmt.Sprintf("module \"m%d\" { source = \"registry.acme.example/acme/a/aws\" }\n", i)
		wide.WriteString(call)
		called.WriteString(call)
	}
	w, _, dir := fixture(t, `
-- main/main.tf --
module "m" { source = "registry.acme.example/acme/wide/aws" }
module "a" { source = "registry.acme.example/acme/a/aws" }
-- acme/a@1.0.0/main.tf --
`+wide.String()+called.String())
	equal(t, walk(t, w, dir), `
ready a 1.0.0
ready wide 1.0.0
terraform chosen a 1.0.0 < main.tf:2
terraform chosen wide 1.0.0 < main.tf:1
terraform trouble wide 1.0.0 < main.tf:1: registry.acme.example/acme/wide/aws 1.0.0: invalid: 5000.tf:1: more than the 5000 calls that are followed
tofu chosen a 1.0.0 < main.tf:2
tofu chosen wide 1.0.0 < main.tf:1
tofu trouble wide 1.0.0 < main.tf:1: registry.acme.example/acme/wide/aws 1.0.0: invalid: 5000.tf:1: more than the 5000 calls that are followed
`)
	_, err := w.Reader.ReadDirectory(t.Context(), filepath.Join(dir, "../wide"), tfconfig.Options{Client: tfconfig.Terraform})
	if err == nil || !strings.Contains(err.Error(), "more than the 5000 calls") {
		t.Errorf("a directory with 5,001 calls: %v", err)
	}
}

// An unavailable module is reported, once for all calls if they fail for the same reason, and the walk continues.
func TestWalkTrouble(t *testing.T) {
	w, asked, dir := fixture(t, `
-- main/main.tf --
module "none" { source = "registry.acme.example/acme/none/aws" }
module "none2" {
  source  = "registry.acme.example/acme/none/aws"
  version = "1.0"
}
module "old" {
  source  = "registry.acme.example/acme/a/aws"
  version = "> 7"
}
module "odd" {
  source  = "registry.acme.example/acme/a/aws"
  version = "latest"
}
module "pre" { source = "registry.acme.example/acme/pre/aws" }
module "sub" { source = "registry.acme.example/acme/a/aws//gone" }
module "broken" { source = "registry.acme.example/acme/broken/aws" }
module "lost" { source = "registry.acme.example/acme/lost/aws" }
-- acme/a@1.0.0/main.tf --
-- acme/pre@1.0.0-rc1/main.tf --
-- acme/lost@1.0.0/main.tf --
-- acme/broken@1.0.0/main.tf --
module "a" { source = "registry.acme.example/acme/a/aws"
}
module "b" { source = "./b" }
`)
	asked.Before = func(_ context.Context, op string, m modproxy.Address, _ string) error {
		if op == "package" && m.Name == "lost" {
			return fmt.Errorf("%w: lost", modproxy.ErrUnavailable)
		}
		return nil
	}
	var lines []string
	for line := range strings.Lines(walk(t, w, dir)) {
		if strings.HasPrefix(line, "tofu t") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	equal(t, strings.Join(lines, "\n"), `
tofu trouble < main.tf:16 < broken/aws 1.0.0: main.tf:3: module "b": no configuration in "b"
tofu trouble a < main.tf:10: registry.acme.example/acme/a/aws: invalid: version constraint "latest": want terms such as >= 1.2.0 or ~> 1.4, separated by commas
tofu trouble a < main.tf:6: registry.acme.example/acme/a/aws: no version matches "> 7"; the newest is 1.0.0
tofu trouble a 1.0.0 gone < main.tf:15: registry.acme.example/acme/a/aws 1.0.0: invalid: no configuration in gone
tofu trouble broken 1.0.0 < main.tf:16 < broken/aws 1.0.0: main.tf:1: Invalid single-argument block definition
tofu trouble lost 1.0.0 < main.tf:17: unavailable: lost
tofu trouble none < main.tf:1: versions registry.acme.example/acme/none/aws: not found
tofu trouble pre < main.tf:14: registry.acme.example/acme/pre/aws: it has only pre-releases, up to 1.0.0-rc1: a version constraint must name a pre-release to choose it
`)
}
