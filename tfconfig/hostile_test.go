package tfconfig_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// packed returns a package of entries.
func packed(t *testing.T, entries ...tar.Header) tfconfig.Tree {
	t.Helper()
	return packedAs(t, modproxy.Digest{}, entries...)
}

func packedAs(t *testing.T, d modproxy.Digest, entries ...tar.Header) tfconfig.Tree {
	t.Helper()
	var b bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&b, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(zipped)
	for _, h := range entries {
		text := h.Uname // carries the content of the file
		h.Uname, h.Size = "", int64(len(text))
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := out.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(out.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return tfconfig.PackageTree(d, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
}

func file(name, text string) tar.Header { return tar.Header{Name: name, Uname: text} }

// levels is a depth of nesting that no child can parse.
const levels = 100_000

const good = `module "good" { source = "acme/good/aws" }` + "\n"

// Input that ends a child returns an error of one line, and the reader stays usable.
func TestHostile(t *testing.T) {
	deep := func(open, end string) tar.Header {
		return file("main.tf", "locals {\n x = "+strings.Repeat(open, levels)+"1"+strings.Repeat(end, levels)+"\n}\n")
	}
	many := func(n int, text string) []tar.Header {
		var list []tar.Header
		for i := range n {
			list = append(list, file(fmt.Sprintf("f%05d.tf", i), fmt.Sprintf("#%d\n", i)+text))
		}
		return list
	}
	full := func(size int) string { return strings.Repeat("# "+strings.Repeat("x", 61)+"\n", size/64) }
	var calls, bomb strings.Builder
	for i := range 5_001 {
		fmt.Fprintf(&calls, "module \"m%d\" { source = \"acme/m/aws\" }\n", i)
	}
	bomb.WriteString("locals {\n a0 = \"xxxxxxxxxxxxxxxx\"\n")
	for i := range 60 {
		fmt.Fprintf(&bomb, " a%d = \"${local.a%d}${local.a%d}\"\n", i+1, i, i)
	}
	bomb.WriteString("}\nmodule \"m\" { source = local.a60 }\n")
	const tooDeep = "nested too deeply"
	tests := map[string]struct {
		tree []tar.Header
		want string // of the error
	}{
		"brackets":    {[]tar.Header{deep("[", "]")}, tooDeep},
		"parentheses": {[]tar.Header{deep("(", ")")}, tooDeep},
		"objects":     {[]tar.Header{deep("{x=", "}")}, tooDeep},
		"not":         {[]tar.Header{deep("!", "")}, tooDeep},
		"minus":       {[]tar.Header{deep("-", "")}, tooDeep},
		"conditions":  {[]tar.Header{file("main.tf", "locals {\n x = "+strings.Repeat("a?1:", levels)+"1\n}\n")}, tooDeep},
		"blocks":      {[]tar.Header{file("main.tf", strings.Repeat("a {\n", levels))}, tooDeep},
		"templates":   {[]tar.Header{file("main.tf", "locals {\n x = "+strings.Repeat(`"${`, levels)+"1"+strings.Repeat(`}"`, levels)+"\n}\n")}, tooDeep},
		"functions":   {[]tar.Header{deep("f(", ")")}, tooDeep},
		"JSON":        {[]tar.Header{file("main.tf.json", strings.Repeat("[", levels))}, tooDeep},
		"JSON object": {[]tar.Header{file("main.tf.json", strings.Repeat(`{"a":`, levels))}, tooDeep},
		"calls":       {[]tar.Header{file("main.tf", calls.String())}, "main.tf:5001: more than the 5000 calls that are followed"},
		"files":       {many(4001, ""), `"f04000.tf": more than the 4000 configuration files`},
		"bytes":       {many(70, full(500<<10)), "more than the 32 MiB of configuration files"},
		"memory":      {[]tar.Header{file("main.tf", bomb.String())}, "MiB of memory"},
		"link":        {[]tar.Header{{Name: "main.tf", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, `"main.tf" is not a regular file`},
		"hard link":   {[]tar.Header{file("x", ""), {Name: "main.tf", Typeflag: tar.TypeLink, Linkname: "x"}}, `"main.tf" is not a regular file`},
		"nothing":     {[]tar.Header{file("README.md", "")}, "no configuration in ."},
	}
	if !rig.Long() { // brackets, templates, blocks and JSON represent all nested forms
		for _, name := range []string{"parentheses", "objects", "not", "minus", "conditions", "functions", "JSON object"} {
			delete(tests, name)
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if name == "memory" && rig.Race {
				rig.Missing(t, "it takes gigabytes under the race detector")
			}
			t.Parallel()
			r := tfconfig.NewReader(nil, 0)
			_, err := r.Read(t.Context(), packed(t, test.tree...), tfconfig.Options{Client: tfconfig.OpenTofu})
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Read: %v; want an ErrInvalid with %q", err, test.want)
			}
			got, err := r.Read(t.Context(), packed(t, file("main.tf", good)), tfconfig.Options{Client: tfconfig.OpenTofu})
			if err != nil || len(got.Calls) != 1 {
				t.Errorf("Read another: %v, %v", got, err)
			}
		})
	}
}

// An error in one file is a problem, and the others are read.
func TestHostileFiles(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"10 MiB":        {strings.Repeat("# "+strings.Repeat("x", 61)+"\n", 10<<14), "bad.tf: is larger than the 512 KiB that are read"},
		"invalid UTF-8": {"module \"m\" { source = \"\xff\xfe\" }\n", "bad.tf:1: Invalid character encoding"},
		"invalid name":  {"locals {\n \xff = 1\n}\n", "bad.tf:2: Invalid character encoding"},
		"null bytes":    {"locals {\n x\x00 = 1\n}\n", "bad.tf:2: Invalid character"},
		"binary":        {"\x7fELF\x00\x01\x02", "bad.tf:1: Invalid character"},
		"UTF-16":        {"\xff\xfem\x00o\x00", "bad.tf:1: Invalid character encoding"},
		"open string":   {"locals {\n x = \"", "bad.tf:2: "},
		"open heredoc":  {"locals {\n x = <<E\n", "bad.tf:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tfconfig.NewReader(nil, 0)
			got, err := r.Read(t.Context(), packed(t, file("bad.tf", test.text), file("main.tf", good)), tfconfig.Options{Client: tfconfig.Terraform})
			if err != nil || len(got.Problems) != 1 || !strings.HasPrefix(got.Problems[0].String(), test.want) {
				t.Fatalf("Read = %+v, %v; want the problem %q", got, err, test.want)
			}
			if !strings.Contains(fmt.Sprint(got.Calls), "acme/good/aws") {
				t.Errorf("the other file was not read: %+v", got.Calls)
			}
		})
	}
}

// Directories that are not called have no effect.
func TestHostileElsewhere(t *testing.T) {
	r := tfconfig.NewReader(nil, 0)
	tree := packed(t, file("examples/main.tf", strings.Repeat("a {\n", levels)), file("main.tf", good))
	if got, err := r.Read(t.Context(), tree, tfconfig.Options{Client: tfconfig.OpenTofu}); err != nil || len(got.Calls) != 1 {
		t.Errorf("Read = %+v, %v", got, err)
	}
}

// FuzzParse parses files without the nesting that ends the process.
func FuzzParse(f *testing.F) {
	f.Add(good, false)
	f.Add(`{"module": {"m": {"source": "${var.x}", "version": "1"}}}`, true)
	f.Add("variable \"v\" {\n type = object({a=optional(string, \"x\")})\n default = {}\n}\nmodule \"m\" { source = var.v.a }", false)
	f.Add("terraform {\n required_providers {\n a = { source = \"b/a\", version = \">1\" }\n}\n}\nresource \"a_b\" \"c\" { provider = a.x }", false)
	f.Add("locals {\n a = local.b\n b = [for x in local.a : x]\n}\nmodule \"m\" {\n source = \"./m\"\n x = local.a\n}", false)
	f.Fuzz(func(t *testing.T, text string, json bool) {
		if len(text) > 4<<10 {
			return
		}
		name := "main.tf"
		if json {
			name += ".json"
		}
		for _, client := range []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu} {
			o := tfconfig.Options{Client: client, Tests: true}
			files := map[string][]byte{name: []byte(text), "m/override.tf": []byte(text), "tests/x.tftest.hcl": []byte(text)}
			c, err := tfconfig.Parse(files, o)
			if err != nil {
				if !errors.Is(err, modproxy.ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			for _, call := range c.Calls {
				if call.File == "" || call.Line < 1 || call.Source == "" && call.Dynamic == "" {
					t.Fatalf("%+v", call)
				}
			}
		}
	})
}
