package lockfile_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/lockfile"
)

var toy = modproxy.NewProvider("registry.example.com", "acme", "toy")

// zh returns the hash of an archive. It ends in n.
func zh(n byte) string { return "zh:" + modproxy.Digest{31: n}.String() }

const (
	h1A = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	h1B = "h1:LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ="
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// written returns a file as a client writes it.
func written() string {
	return `# This file is maintained automatically by "terraform init".
# Manual edits may be lost in future updates.

provider "bücher.example:8443/acme/odd" {
  version = "0.1.0-beta.1"
}

provider "registry.example.com/acme/toy" {
  version     = "1.1.0"
  constraints = ">= 1.0.0, < 2.0.0"
  hashes = [
    "` + h1B + `",
    "` + zh(2) + `",
    "` + zh(5) + `",
  ]
}
`
}

func TestParse(t *testing.T) {
	odd := modproxy.NewProvider("xn--bcher-kva.example:8443", "acme", "odd").At("0.1.0-beta.1")
	want := []lockfile.Provider{{Ref: odd}, {Ref: toy.At("1.1.0"), Hashes: []string{h1B, zh(2), zh(5)}}}
	for name, text := range map[string]string{
		"as it is":      written(),
		"of Windows":    strings.ReplaceAll(written(), "\n", "\r\n"),
		"with remarks":  strings.ReplaceAll(written(), "\n", " // why\n#\n\n"),
		"squeezed":      strings.NewReplacer("  ", "", " =", "=", "= ", "=", " {", "{").Replace(written()),
		"without a \\n": strings.TrimSpace(written()),
	} {
		got, err := lockfile.Parse([]byte(text))
		for i := range got {
			if line := strings.Split(text, "\n")[got[i].Line-1]; !strings.Contains(line, "acme/"+got[i].Name) {
				t.Errorf("%s: %v is not in line %d: %s", name, got[i], got[i].Line, line)
			}
			got[i].Line = 0
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, want)
		}
	}
	if got, err := lockfile.Parse(nil); err != nil || got != nil {
		t.Errorf("nothing: %v, %v", got, err)
	}
}

// A file in another form is refused, with the line: people must see a line that has two readings.
func TestParseRefuses(t *testing.T) {
	const address = `"registry.example.com/acme/toy"`
	for name, change := range map[string][2]string{
		"a conflict":          {"provider \"reg", "=======\nprovider \"reg"},
		"another block":       {`provider "reg`, `module "reg`},
		"no address":          {address, `"toy"`},
		"no host":             {address, `"acme/toy"`},
		"a module":            {address, `"registry.example.com/acme/toy/aws"`},
		"upper case":          {address, `"registry.example.com/ACME/toy"`},
		"punycode":            {"bücher", "xn--bcher-kva"},
		"default port":        {"8443", "443"},
		"two blocks":          {"bücher.example:8443/acme/odd", "registry.example.com/acme/toy"},
		"a template":          {`"1.1.0"`, `"${"1.1.0"}"`},
		"an escape":           {`"1.1.0"`, `"1.1\u002e0"`},
		"a control character": {"# Manual", "\r"},
		"broken text":         {"# Manual", "\xff"},
		"a long remark":       {"# Manual", "/* */"},
		"a spelling":          {`"1.1.0"`, `"1.1"`},
		"what modproxy makes": {`"1.1.0"`, `"1.1.0+modproxy.platform.linux-amd64"`},
		"no version":          {`version     = "1.1.0"`, ""},
		"two versions":        {"constraints = ", "version = "},
		"two lists":           {`constraints = ">= 1.0.0, < 2.0.0"`, "hashes = [\n]"},
		"another attribute":   {"constraints", "os"},
		"a list in a line":    {"hashes = [\n", "hashes = ["},
		"no comma":            {"\",\n  ]", "\"\n  ]"},
		"another scheme":      {"h1:", "h2:"},
		"a short h1":          {"h1:LP", "h1:"},
		"upper case digits":   {zh(5)[:10], "zh:AAAAAAA"},
		"no end":              {"  ]\n}", "  ]"},
		"text after the end":  {"  ]\n}", "  ]\n} x"},
	} {
		text := strings.Replace(written(), change[0], change[1], 1)
		if text == written() {
			t.Errorf("%s: nothing is changed", name)
		}
		if got, err := lockfile.Parse([]byte(text)); !errors.Is(err, modproxy.ErrInvalid) || !strings.HasPrefix(err.Error(), "line ") {
			t.Errorf("%s: %v, %v; want ErrInvalid with the line", name, got, err)
		}
	}
	if _, err := lockfile.Parse(make([]byte, lockfile.MaxSize+1)); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a large file: %v", err)
	}
}

func TestAddHashes(t *testing.T) {
	text := strings.Replace(written(), `    "`+zh(5), "    # kept\n\t\""+zh(5), 1)
	text = strings.Replace(text, "  ]", "    # last\n  ]", 1)
	odd := modproxy.NewProvider("xn--bcher-kva.example:8443", "acme", "odd").At("0.1.0-beta.1")
	more := map[modproxy.Ref][]string{
		toy.At("1.1.0"): {zh(9), h1A, zh(3), zh(5), zh(3)},
		toy.At("1.0.0"): {zh(1)},
		odd:             {zh(1), h1A},
	}
	want := strings.Replace(text, "\"0.1.0-beta.1\"\n", "\"0.1.0-beta.1\"\n  hashes = [\n    \""+h1A+"\",\n    \""+zh(1)+"\",\n  ]\n", 1)
	want = strings.Replace(want, `    "`+h1B, `    "`+h1A+"\",\n    \""+h1B, 1)
	want = strings.Replace(want, `    # kept`, `    "`+zh(3)+"\",\n    # kept", 1)
	want = strings.Replace(want, `    # last`, `    "`+zh(9)+"\",\n    # last", 1)
	for name, eol := range map[string]string{"Unix": "\n", "Windows": "\r\n"} {
		ended := func(s string) string { return strings.ReplaceAll(s, "\n", eol) }
		got, err := lockfile.AddHashes([]byte(ended(text)), more)
		if err != nil || string(got) != ended(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, ended(want))
		}
		if again, err := lockfile.AddHashes(got, more); err != nil || string(again) != string(got) {
			t.Errorf("%s: once more: %v\n%s", name, err, again)
		}
	}
	// Lists without new hashes stay in their order.
	odder := strings.Replace(written(), h1B, zh(7), 1)
	if got, err := lockfile.AddHashes([]byte(odder), map[modproxy.Ref][]string{toy.At("1.1.0"): {zh(7)}}); err != nil || string(got) != odder {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := lockfile.AddHashes([]byte(odder), map[modproxy.Ref][]string{toy.At("1.1.0"): {h1A}}); err != nil ||
		!strings.Contains(string(got), `"`+h1A+"\",\n    \""+zh(2)+"\",\n    \""+zh(5)+"\",\n    \""+zh(7)) {
		t.Errorf("%v\n%s", err, got)
	}
}

// For any file, Parse returns what the clients' own library returns, before hashes are added and after.
func FuzzParse(f *testing.F) {
	f.Add([]byte(written()))
	f.Add([]byte(strings.ReplaceAll(written(), "\n", " # x\r\n")))
	f.Add([]byte("provider \"a.example/b/c\" {\n  version = \"1.0.0\"\n  hashes = [\n]}"))
	f.Add([]byte("#\r"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := lockfile.Parse(text)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		if read := readHCL(t, text); !reflect.DeepEqual(all, read) {
			t.Fatalf("%q has %v, and is read as %v", text, read, all)
		}
		more := map[modproxy.Ref][]string{}
		for i, p := range all {
			more[p.Ref] = []string{zh(1), h1A}
			for _, hash := range []string{h1A, zh(1)} {
				if !slices.Contains(p.Hashes, hash) {
					all[i].Hashes = append(all[i].Hashes, hash)
				}
			}
			slices.Sort(all[i].Hashes)
		}
		text, err = lockfile.AddHashes(text, more)
		if err != nil {
			t.Fatal(err)
		}
		read := readHCL(t, text)
		for i := range read {
			slices.Sort(read[i].Hashes) // lists without new hashes may be unsorted
			read[i].Line = all[i].Line  // lines were added above
		}
		if !reflect.DeepEqual(all, read) {
			t.Fatalf("%q has %v, and should have %v", text, read, all)
		}
	})
}

// readHCL parses the file as the clients do.
func readHCL(t *testing.T, text []byte) (all []lockfile.Provider) {
	file, diags := hclsyntax.ParseConfig(text, lockfile.Name, hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%q: %v", text, diags)
	}
	for _, b := range file.Body.(*hclsyntax.Body).Blocks {
		p := lockfile.Provider{Line: b.TypeRange.Start.Line}
		address := strings.Split(b.Labels[0], "/")
		host, err := hostname.Parse(address[0])
		must(t, err)
		p.Address = modproxy.NewProvider(host, address[1], address[2])
		for name, attribute := range b.Body.Attributes {
			value, diags := attribute.Expr.Value(nil)
			switch {
			case diags.HasErrors():
				t.Fatalf("%q: %v", text, diags)
			case name == "version":
				p.Version = value.AsString()
			case name == "hashes":
				for _, hash := range value.AsValueSlice() {
					p.Hashes = append(p.Hashes, hash.AsString())
				}
			}
		}
		all = append(all, p)
	}
	return all
}
