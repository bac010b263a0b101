package tfconfig_test

import (
	"archive/tar"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/tfconfig"
)

// With CallsOnly, a tree without calls is not parsed, and any other tree is read as without it.
func TestCallsOnly(t *testing.T) {
	const uses = "resource \"acme_thing\" \"x\" {}\n" // would be reported as a provider, if the file were parsed
	for name, c := range map[string]struct {
		files []tar.Header
		calls int
		read  bool
	}{
		"a leaf":       {[]tar.Header{file("main.tf", "# a module\n"+uses+"locals {\n  module_name = \"x\"\n}\n")}, 0, false},
		"a call":       {[]tar.Header{file("main.tf", uses), file("z.tf", good)}, 1, true},
		"CR LF":        {[]tar.Header{file("main.tf", strings.ReplaceAll(uses+good, "\n", "\r\n"))}, 1, true},
		"a mark":       {[]tar.Header{file("a.tf", uses), file("main.tf", "\ufeff"+good)}, 1, true},
		"JSON":         {[]tar.Header{file("a.tf", uses), file("main.tf.json", `{"module": {"x": {"source": "acme/x/aws"}}}`)}, 1, true},
		"JSON, a leaf": {[]tar.Header{file("a.tf", uses), file("main.tf.json", `{"output": {"x": {"value": "a module"}}}`)}, 0, false},
		"of OpenTofu":  {[]tar.Header{file("a.tf", uses), file("b.tofu", good)}, 1, true},
		"by another": {[]tar.Header{file("main.tf", uses+"\tmodule \"a\" { source = \"./a\" }\n"),
			file("a/main.tf", good)}, 1, true},
		"beside":     {[]tar.Header{file("main.tf", uses), file("examples/a/main.tf", good)}, 0, false},
		"no file":    {[]tar.Header{file("main.tf", uses), file("README.md", good), file("main.tf.bak", good)}, 0, false},
		"a test":     {[]tar.Header{file("main.tf", uses), file("main.tftest.hcl", good)}, 0, false},
		"a big file": {[]tar.Header{file("main.tf", uses), file("z.tf", good+strings.Repeat("#", tfconfig.MaxFile))}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := tfconfig.NewReader(nil, 0)
			got, err := r.Read(t.Context(), packed(t, c.files...), tfconfig.Options{Client: tfconfig.OpenTofu, CallsOnly: true})
			if err != nil || len(got.Calls) != c.calls || len(got.Providers) > 0 != c.read {
				t.Errorf("Read = %+v, %v; want %d calls, and that it is read: %t", got, err, c.calls, c.read)
			}
			if got, err = r.Read(t.Context(), packed(t, c.files...), tfconfig.Options{Client: tfconfig.OpenTofu}); err != nil || len(got.Providers) == 0 {
				t.Errorf("all of it: %+v, %v", got, err)
			}
		})
	}
}

// Stored results with CallsOnly are not returned without it, and the reverse.
func TestCallsOnlyKept(t *testing.T) {
	s, d := newStore(t)
	r := tfconfig.NewReader(s, 0)
	tree := packedAs(t, d, file("main.tf", "resource \"acme_thing\" \"x\" {}\n"))
	for _, tree := range []tfconfig.Tree{tree, closed(d)} {
		for _, only := range []bool{true, false} {
			got, err := r.Read(t.Context(), tree, tfconfig.Options{Client: tfconfig.OpenTofu, CallsOnly: only})
			if err != nil || len(got.Providers) > 0 == only {
				t.Errorf("calls only %t: %+v, %v", only, got, err)
			}
		}
	}
}

// FuzzMayCall checks that mayCall reports every file with a call at the beginning of a line.
func FuzzMayCall(f *testing.F) {
	f.Add("main.tf", "module \"a\" {\n  source = \"acme/a/aws\"\n}\n")
	f.Add("main.tf.json", `{"module": {"a": {"source": "x"}}}`)
	f.Add("main.tf", " module a { source = <<E\nmodule\nE\n}")
	f.Fuzz(func(t *testing.T, name, text string) {
		unusual := strings.Contains(text, "*/") || strings.Contains(text, "\\") // comments before a call, and escapes
		if len(text) > 4<<10 || unusual || strings.Count(text, "[")+strings.Count(text, "{")+strings.Count(text, "(") > 100 {
			return
		}
		may := tfconfig.MayCall(name, []byte(text))
		c, err := tfconfig.Parse(map[string][]byte{name: []byte(text)}, tfconfig.Options{Sources: true})
		if err == nil && len(c.Sources) > 0 && !may {
			t.Errorf("%q calls a module, and does not look so", text)
		}
	})
}
