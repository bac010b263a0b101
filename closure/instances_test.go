package closure_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/tfconfig"
)

func newStore(t *testing.T) *store.Store {
	t.Helper()
	d, err := disk.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d})
}

// Values that packages pass on are followed for every set of arguments, in any order of reading. An unknown value stays unknown.
func TestWalkPassed(t *testing.T) {
	calls := []string{
		`module "a" { source = "registry.acme.example/acme/top/aws" }`,
		`module "b" {
  source = "registry.acme.example/acme/top/aws"
  v      = "b"
}`,
		`module "c" {
  source = "registry.acme.example/acme/middle/aws"
  v      = "c"
}`,
		`module "d" {
  source = "registry.acme.example/acme/top/aws"
  v      = module.a.x
}`,
	}
	const packages = `
-- acme/top@1.0.0/main.tf --
variable "v" {
  const   = true
  default = "a"
}
module "middle" {
  source = "./middle"
  v = var.v
  w = "${var.v}-w"
}
-- acme/top@1.0.0/middle/main.tf --
variable "v" { const = true }
variable "w" { const = true }
module "middle" {
  source = "registry.acme.example/acme/middle/aws"
  v = var.v
  w = var.w
}
-- acme/middle@1.0.0/main.tf --
variable "v" { const = true }
variable "w" { default = "" }
module "bottom" {
  source = "registry.acme.example/acme/bottom/aws"
  v = lower(var.v)
  w = var.w
}
-- acme/bottom@1.0.0/main.tf --
variable "v" { const = true }
variable "w" {}
module "leaf" { source = "registry.acme.example/acme/leaf/aws//${var.v}" }
-- acme/leaf@1.0.0/a/main.tf --
-- acme/leaf@1.0.0/b/main.tf --
-- acme/leaf@1.0.0/c/main.tf --
`
	for first := range calls {
		main := strings.Join(append(append([]string{}, calls[first:]...), calls[:first]...), "\n")
		w, _, dir := fixture(t, "-- main/main.tf --\n"+main+packages)
		w.AtOnce = 1 + first%2*7
		w.Reader.Store = newStore(t)
		got := walk(t, w, dir)
		for _, client := range []string{"terraform", "tofu"} {
			for _, part := range []string{"a", "b", "c"} {
				if want := client + " chosen leaf 1.0.0 " + part + " < "; strings.Count(got, want) != 1 {
					t.Errorf("%s\ndoes not contain once %s", got, want)
				}
			}
			if want := client + " bypass"; strings.Count(got, want) != 1 {
				t.Errorf("%s\ndoes not contain once %s", got, want)
			}
		}
		for _, not := range []string{"trouble", "that far"} {
			if strings.Contains(got, not) {
				t.Errorf("%s\ncontains %s", got, not)
			}
		}
		if want := "bottom/aws 1.0.0: main.tf:3: its source refers to var.v, which refers to "; strings.Count(got, want) != 2 {
			t.Errorf("%s\ndoes not contain twice %s", got, want)
		}
	}
}

// A chain of packages that each call the next one in two ways ends at the bound, and the walk reports that.
func TestWalkManyWays(t *testing.T) {
	var text strings.Builder
	text.WriteString("-- main/main.tf --\n" + `module "m" { source = "registry.acme.example/acme/m0/aws" }` + "\n")
	const chain = 6
	for i := range chain {
		fmt.Fprintf(&text, "-- acme/m%d@1.0.0/main.tf --\nvariable \"v\" {\n  const   = true\n  default = \"v\"\n}\n", i)
		for n := range 2 {
			fmt.Fprintf(&text, "module \"m%d\" {\n  source = \"registry.acme.example/acme/m%d/aws\"\n  v = \"${var.v}%d\"\n}\n", n, i+1, n)
		}
	}
	fmt.Fprintf(&text, "-- acme/m%d@1.0.0/main.tf --\nvariable \"v\" { const = true }\n", chain)
	text.WriteString("module \"leaf\" { source = \"registry.acme.example/acme/leaf/aws//${var.v}\" }\n-- acme/leaf@1.0.0/main.tf --\n")
	w, _, dir := fixture(t, text.String())
	w.Reader.Store = newStore(t)
	got := walk(t, w, dir)
	for _, client := range []string{"terraform", "tofu"} {
		if want := client + " chosen leaf 1.0.0 v"; strings.Count(got, want) != 16 {
			t.Errorf("%s\ndoes not contain 16 times %s", got, want)
		}
		for i := 5; i <= chain; i++ {
			want := fmt.Sprintf("registry.acme.example/acme/m%d/aws 1.0.0: it is called with more than 16 sets of arguments", i)
			if strings.Count(got, want) != 2 {
				t.Errorf("%s\ndoes not contain %s", got, want)
			}
		}
	}
}

// If each package of a chain passes on a variable and was called before without it, each round finds one more package. The walk ends at
// the bound on rounds, and reports that.
func TestWalkManyRounds(t *testing.T) {
	for chain, want := range map[int]string{
		12: "",
		20: "registry.acme.example/acme/m4/aws 1.0.0: its variables pass through more packages than 16 rounds can follow; " +
			"modules that depend on them may be missing",
	} {
		var main, packages strings.Builder
		for i := range chain {
			fmt.Fprintf(&main, "module \"m%d\" { source = \"registry.acme.example/acme/m%d/aws\" }\n", i, i)
			fmt.Fprintf(&packages, "-- acme/m%d@1.0.0/main.tf --\nvariable \"v\" { default = \"v\" }\n", i)
			fmt.Fprintf(&packages, "module \"m\" {\n  source = \"registry.acme.example/acme/m%d/aws\"\n  v = var.v\n}\n", i+1)
		}
		fmt.Fprintf(&packages, "-- acme/m%d@1.0.0/main.tf --\nvariable \"v\" {}\n", chain)
		main.WriteString("module \"w\" {\n  source = \"registry.acme.example/acme/m0/aws\"\n  v = \"w\"\n}\n")
		packages.WriteString("module \"leaf\" { source = \"registry.acme.example/acme/leaf/aws//${var.v}\" }\n" +
			"-- acme/leaf@1.0.0/v/main.tf --\n-- acme/leaf@1.0.0/w/main.tf --\n")
		w, _, dir := fixture(t, "-- main/main.tf --\n"+main.String()+packages.String())
		w.Reader.Store = newStore(t)
		c, err := w.Reader.ReadDirectory(t.Context(), dir, tfconfig.Options{Client: tfconfig.OpenTofu})
		if err != nil {
			t.Fatal(err)
		}
		var starts []closure.Start
		for _, call := range c.Calls {
			starts = append(starts, closure.Start{Client: tfconfig.OpenTofu, Call: call})
		}
		leaves, told := map[string]bool{}, ""
		err = w.Walk(t.Context(), starts, func(f closure.Found) {
			if f.Kind == closure.Chosen && f.Module.Name == "leaf" {
				leaves[f.Subdir] = true
			}
			if f.Err != nil {
				told += f.Err.Error()
			}
		})
		if err != nil || told != want || !leaves["v"] || leaves["w"] != (want == "") {
			t.Errorf("a chain of %d: leaves %v, %v, told %q, want %q", chain, leaves, err, told, want)
		}
	}
}
