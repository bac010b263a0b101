package closure_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// Constants are passed on to packages of registries, and through them to others. The clients that evaluate constants install the
// versions that a walk chooses.
func TestConstantsInPackages(t *testing.T) {
	modules := txtar.Parse([]byte(`
-- modules/acme/outer/aws/1.0.0/main.tf --
variable "name" {
  const   = true
  default = "inner"
}
variable "want" {
  const   = true
  type    = object({ version = optional(string, "~> 1.0") })
  default = {}
}
variable "plain" { default = "plain" }
locals { at = "registry.acme.example/acme/${var.name}/aws" }
module "in" {
  source  = local.at
  version = var.want.version
  next    = "${var.name}most"
  later   = var.plain
}
module "own" {
  source = "./modules/${var.name}"
  name   = upper(var.name)
}
-- modules/acme/outer/aws/1.0.0/modules/inner/main.tf --
variable "name" {
  const = true
}
module "own" { source = "registry.acme.example/acme/${lower(var.name)}most/aws//sub" }
-- modules/acme/inner/aws/1.0.0/main.tf --
-- modules/acme/inner/aws/1.5.0/main.tf --
variable "next" {
  const = true
}
variable "later" {}
module "most" {
  source  = "registry.acme.example/acme/${var.next}/aws"
  version = "< 2"
}
-- modules/acme/inner/aws/2.0.0/main.tf --
variable "next" {}
variable "later" {}
-- modules/acme/innermost/aws/1.0.0/main.tf --
-- modules/acme/innermost/aws/2.0.0/main.tf --
-- modules/acme/innermost/aws/2.0.0/sub/main.tf --
-- modules/acme/hands/aws/1.0.0/main.tf --
variable "on" {
  const   = true
  default = "inner"
}
variable "other" { default = "other" }
module "hands" {
  source = "registry.acme.example/acme/handed/aws"
  name   = var.on
  other  = var.other
}
-- modules/acme/only/aws/1.0.0/main.tf --
-- modules/acme/other/aws/1.0.0/main.tf --
-- modules/acme/far/aws/1.0.0/main.tf --
variable "settings" {
  const   = true
  type    = object({ on = optional(string, "inner"), more = optional(string) })
  default = {}
}
module "below" {
  source = "./below"
  name   = join("", [var.settings.on])
}
-- modules/acme/far/aws/1.0.0/below/main.tf --
variable "name" {
  const = true
}
module "hands" {
  source = "registry.acme.example/acme/hands/aws"
  on     = var.name
  other  = "far"
}
-- modules/acme/farther/aws/1.0.0/main.tf --
variable "first" {
  const   = true
  default = ""
}
variable "second" {
  const   = true
  default = "other"
}
module "far" {
  source   = "registry.acme.example/acme/far/aws"
  settings = { on = "${var.first}${var.second}", more = null }
}
-- modules/acme/handed/aws/1.0.0/main.tf --
variable "name" {
  const = true
}
variable "other" {}
module "handed" {
  source  = "registry.acme.example/acme/${var.name}/aws"
  version = "1.0.0"
}
`))
	u := registrytest.New(t, modules)
	memory, err := registrytest.NewMemory("registry.acme.example", modules)
	if err != nil {
		t.Fatal(err)
	}
	for client, program := range rig.Evaluating(t) {
		t.Run(client, func(t *testing.T) {
			i := &rig.Installation{
				Dir: t.TempDir(), CAFile: u.CAFile, Registries: map[string]string{"registry.acme.example": u.URL + "/v1/modules/"},
				Calls: map[string]string{
					"default": `source = "registry.acme.example/acme/outer/aws"` + "\nname = \"inner\"",
					"given":   `source = "registry.acme.example/acme/outer/aws"` + "\nname = trimsuffix(\"inner-x\", \"-x\")\nwant = { version = \"2.0.0\" }",
					"hands":   `source = "registry.acme.example/acme/hands/aws"`,
					"handsOn": `source = "registry.acme.example/acme/hands/aws"` + "\non = \"only\"",
					"far":     `source = "registry.acme.example/acme/far/aws"`,
					"farOn":   `source = "registry.acme.example/acme/far/aws"` + "\nsettings = { on = \"innermost\" }",
					"farther": `source = "registry.acme.example/acme/farther/aws"`,
					"farBoth": `source = "registry.acme.example/acme/farther/aws"` + "\nfirst = \"out\"\nsecond = \"er\"",
				},
			}
			installed, err := i.Get(t.Context(), program)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(installed, "modules.json"))
			if err != nil {
				t.Fatal(err)
			}
			var all struct {
				Modules []struct{ Source, Version string }
			}
			if err := json.Unmarshal(text, &all); err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, m := range all.Modules {
				if m.Version != "" {
					source, sub, _ := strings.Cut(m.Source, "//")
					got = append(got, strings.TrimSpace(source+" "+m.Version+" "+sub))
				}
			}
			w := &closure.Walker{Registry: memory, Routes: acme{}, Reader: tfconfig.NewReader(nil, 0)}
			c, err := w.Reader.ReadDirectory(t.Context(), filepath.Join(i.Dir, "work"), tfconfig.Options{Client: tfconfig.Client(client)})
			if err != nil || len(c.Problems) > 0 {
				t.Fatal(err, c)
			}
			var starts []closure.Start
			for _, call := range c.Calls {
				starts = append(starts, closure.Start{Client: tfconfig.Client(client), Call: call})
			}
			err = w.Walk(t.Context(), starts, func(f closure.Found) {
				switch {
				case f.Err != nil:
					t.Errorf("%v: %v", f.Chain, f.Err)
				case f.Kind == closure.Chosen:
					want = append(want, strings.TrimSuffix(f.Module.Address.String()+" "+f.Module.Version+" "+f.Subdir, " ."))
				}
			})
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(slices.Compact(got), slices.Compact(want)); diff != "" || err != nil || len(got) == 0 {
				t.Errorf("-installed by %s +chosen: %v\n%s", client, err, diff)
			}
		})
	}
}
