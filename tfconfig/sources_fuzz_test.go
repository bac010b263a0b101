package tfconfig_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// An expression that replaces a source is read in its place, and everything else is read as before.
func FuzzSources(f *testing.F) {
	f.Add("main.tf", "module \"a\" {\n  source = \"git::https://a\" # c\n}\nmodule \"b\" { source = <<E\nx\nE\n}")
	f.Add("main.tf", "\ufeffmodule \"a\" { source = (\"\\u0061${\"b\"}\") }")
	f.Add("main.tf.json", `{"module": {"a": {"source": "x", "source": "y"}, "b": [{"source": "\u0061"}]}}`)
	f.Fuzz(func(t *testing.T, name, text string) {
		if len(text) > 4<<10 || strings.Count(text, "[")+strings.Count(text, "{")+strings.Count(text, "(") > 100 {
			return
		}
		read := func(text string) *tfconfig.Configuration {
			c, err := tfconfig.Parse(map[string][]byte{name: []byte(text)}, tfconfig.Options{Sources: true})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		before := read(text)
		for i, s := range before.Sources {
			if s.Start < 0 || s.End <= s.Start || s.End > len(text) || i > 0 && s.Start < before.Sources[i-1].End {
				t.Fatalf("%+v in %q", before.Sources, text)
			}
			if s.Dynamic != "" {
				continue
			}
			const address = "https://modules.example.com/x+y.tar.gz//z"
			after := read(text[:s.Start] + `"` + address + `"` + text[s.End:])
			if len(after.Sources) != len(before.Sources) {
				t.Fatalf("%q has %d sources, and %d without %+v", text, len(before.Sources), len(after.Sources), s)
			}
			for j, is := range after.Sources {
				if was := before.Sources[j]; j != i && (is.Source != was.Source || is.Dynamic != was.Dynamic) || j == i && is.Source != address {
					t.Fatalf("%q: source %d is %+v, and was %+v, when %d was replaced", text, j, is, was, i)
				}
			}
		}
	})
}
