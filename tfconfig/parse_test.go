package tfconfig_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/tfconfig"
)

// Each archive in testdata/parse is a tree. "want" is the configuration that both clients read in it, or the one client in "only".
func TestParse(t *testing.T) {
	archives, _ := filepath.Glob("testdata/parse/*.txtar")
	if len(archives) == 0 {
		t.Fatal("no archives")
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files, o, clients, want := map[string][]byte{}, tfconfig.Options{}, []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}, ""
			for _, f := range a.Files {
				switch f.Name {
				case "want":
					want = string(f.Data)
				case "tests":
					o.Tests = true
				case "submodules":
					o.Submodules = true
				case "vars":
					if err := json.Unmarshal(f.Data, &o.Vars); err != nil {
						t.Fatal(err)
					}
				case "only":
					clients = []tfconfig.Client{tfconfig.Client(strings.TrimSpace(string(f.Data)))}
				default:
					files[f.Name] = f.Data
				}
			}
			readers := map[string][]string{} // by line
			for _, client := range clients {
				o.Client = client
				c, err := tfconfig.Parse(files, o)
				if err != nil {
					t.Fatal(err)
				}
				for _, line := range lines(c) {
					readers[line] = append(readers[line], string(client))
				}
			}
			var got []string
			for line, by := range readers {
				if len(by) < len(clients) {
					line += " (" + by[0] + ")"
				}
				got = append(got, line)
			}
			wanted := strings.Split(strings.TrimSpace(want), "\n")
			slices.Sort(got)
			slices.Sort(wanted)
			if diff := cmp.Diff(wanted, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// lines returns the contents of a configuration, one item a line.
func lines(c *tfconfig.Configuration) (out []string) {
	for _, call := range c.Calls {
		line := strings.TrimSpace(fmt.Sprintf("%s:%d %s: %s %q %s", call.File, call.Line, call.Name, call.Source, call.Version, call.Dynamic))
		for i, at := range call.From {
			if i == 0 {
				line += " from"
			}
			line += fmt.Sprintf(" %s:%d", at.File, at.Line)
		}
		for _, name := range slices.Sorted(maps.Keys(call.Args)) {
			if arg := call.Args[name]; name != "name" && arg.Value != nil {
				line += fmt.Sprintf(" %s=%s of %v", name, arg.Value, arg.Inputs)
			} else if name != "name" {
				line += fmt.Sprintf(" %s=? %s", name, arg.Dynamic)
			}
		}
		out = append(out, line)
	}
	for _, r := range c.Providers {
		out = append(out, fmt.Sprintf("provider %s:%d %s: %s %q", r.File, r.Line, r.Name, r.Source, r.Version))
	}
	for _, p := range c.Problems {
		out = append(out, "problem "+p.String())
	}
	if len(c.Variables) > 0 {
		out = append(out, "variables "+strings.Join(c.Variables, " "))
	}
	return out
}
