package tfconfig_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// Each archive in testdata/describe is a tree. "want" is its description, and "dir" is the directory of the module.
func TestDescribe(t *testing.T) {
	archives, _ := filepath.Glob("testdata/describe/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files, dir, want := map[string][]byte{}, ".", new(tfconfig.Description)
			for _, f := range a.Files {
				switch f.Name {
				case "dir":
					dir = strings.TrimSpace(string(f.Data))
				case "want":
					d := json.NewDecoder(bytes.NewReader(f.Data))
					d.DisallowUnknownFields()
					if err := d.Decode(want); err != nil {
						t.Fatal(err)
					}
				default:
					files[f.Name] = f.Data
				}
			}
			got, err := tfconfig.Describe(files, dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Input beyond a bound is an error, if the bound matters.
func TestDescribeBounds(t *testing.T) {
	const over = tfconfig.MaxFile + 1
	parts := map[string][]byte{}
	for i := range 500 {
		parts[fmt.Sprintf("examples/%d/main.tf", i)] = nil
	}
	for name, test := range map[string]struct {
		files map[string][]byte
		want  string // of the error
	}{
		"directories":      {parts, "more than the 500 directories"},
		"root":             {map[string][]byte{"main.tf": make([]byte, over)}, "main.tf: is larger than the 512 KiB"},
		"submodule":        {map[string][]byte{"modules/x/a.tofu": make([]byte, over)}, "modules/x/a.tofu: is larger than the 512 KiB"},
		"no float64":       {map[string][]byte{"modules/x/a.tf": []byte("variable \"x\" { default = 1e999 }")}, "the configuration in modules/x cannot be described"},
		"many digits":      {map[string][]byte{"main.tf": []byte("variable \"x\" { default = 1e9999 }")}, "the configuration in . cannot be described"},
		"elsewhere":        {map[string][]byte{"test/main.tf": make([]byte, over), "modules/x/y/main.tf": make([]byte, over)}, ""},
		"README":           {map[string][]byte{"README.md": make([]byte, over), "main.tf": {}}, ""},
		"nothing":          {nil, ""},
		"README, no UTF-8": {map[string][]byte{"README.md": []byte("a\xff")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tfconfig.Describe(test.files, ".")
			switch {
			case test.want != "" && (!errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 500):
				t.Errorf("Describe: %v; want %q", err, test.want)
			case test.want == "" && err != nil:
				t.Errorf("Describe: %v", err)
			case test.want == "" && (len(got.Root.Readme) > 4 || !utf8.ValidString(got.Root.Readme) || got.Root.Empty == (test.files["main.tf"] != nil)):
				t.Errorf("Describe = %+v", got)
			}
		})
	}
}

// Texts of a description cannot move the cursor of a terminal or reverse the direction of text.
func TestDescribeClean(t *testing.T) {
	got, err := tfconfig.Describe(map[string][]byte{
		"README.md": []byte("# \x1b[31mred\x00\u202e\r\n"),
		"main.tf": []byte(`variable "v" {
			description = "\u001b[1m\u2066d"
			default     = "\u009b\u202ex"
		}
		variable "\u202ew" {}
		variable "` + "\u202e" + `x" {}
		output "o" { description = "\u0007o" }
		module "m" {
			source  = "\u001bacme/m/aws"
		}
		module "n" {
			source  = "acme/n/aws"
			version = "\u001b1"
		}
		terraform {
			required_providers {
				a = { source = "\u001bx/a", version = "\u00851" }
			}
		}`),
		"modules/\x1bx/main.tf": nil,
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	want := &tfconfig.Description{
		Root: modproxy.Part{
			Readme:    "# [31mred\n",
			Inputs:    []modproxy.Input{{Name: "v", Type: "any", Description: "[1md", Default: `"x"`}},
			Outputs:   []modproxy.Output{{Name: "o", Description: "o"}},
			Calls:     []modproxy.PartCall{{Name: "n", Source: "acme/n/aws"}},
			Providers: []modproxy.PartNeed{{Name: "a", Namespace: "hashicorp", Source: "hashicorp/a"}},
			Resources: []modproxy.PartManaged{},
		},
		Submodules: []modproxy.Part{}, Examples: []modproxy.Part{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// FuzzDescribe describes files without the nesting that ends the process.
func FuzzDescribe(f *testing.F) {
	f.Add("main.tf", "variable \"v\" {\n type = list(string)\n default = [1, null]\n}\noutput \"o\" { description = \"x\" }\nresource \"a_b\" \"c\" { provider = d.e }")
	f.Add("main.tf.json", `{"variable": {"v": {"default": {"a": 1e3}}}, "module": {"m": {"source": "a/b/c", "version": "1"}}}`)
	f.Add("old.tf", "variable \"v\" { default { a = \"b\" } }\nmodule \"m\" { source = \"./x\" }")
	f.Add("modules/x/override.tofu", "terraform {\n required_providers {\n a = { source = \"b/a\", version = \">1\" }\n}\n}")
	f.Add("examples/x/readme.MD", "# x")
	long := regexp.MustCompile(`[eE]\+?[0-9]{5}`) // numbers that take seconds to format
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(text) > 4<<10 || long.MatchString(text) {
			return
		}
		got, err := tfconfig.Describe(map[string][]byte{name: []byte(text)}, ".")
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		for _, p := range append(append(got.Submodules, got.Examples...), got.Root) {
			if p.Inputs == nil || p.Outputs == nil || p.Calls == nil || p.Providers == nil || p.Resources == nil || !utf8.ValidString(p.Readme) {
				t.Fatalf("%+v", p)
			}
			for _, in := range p.Inputs {
				if in.Required != (in.Default == "") || in.Default != "" && !json.Valid([]byte(in.Default)) || in.Type == "" {
					t.Fatalf("%+v", in)
				}
			}
		}
	})
}
