package tfconfig_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/test/rig"
	"github.com/modproxy/modproxy/tfconfig"
)

// Describe stores its results and its permanent errors.
func TestDescribeKept(t *testing.T) {
	s, d := newStore(t)
	r := tfconfig.NewReader(s, 0)
	tree := packedAs(t, d, file("README.md", "# x"), file("main.tf", good), file("sub/main.tf", "variable \"v\" {}\n"), file("bad/main.tf", strings.Repeat("a {\n", levels)))
	for _, tree := range []tfconfig.Tree{tree, closed(d)} {
		got, err := r.Describe(t.Context(), tree, "")
		if err != nil || got.Root.Readme != "# x" || fmt.Sprint(got.Root.Calls) != "[{good acme/good/aws }]" {
			t.Errorf("Describe = %+v, %v", got, err)
		}
		got, err = r.Describe(t.Context(), tree, "sub")
		if err != nil || got.Root.Readme != "" || len(got.Root.Inputs) != 1 || got.Root.Outputs == nil || got.Examples == nil {
			t.Errorf("Describe = %+v, %v", got, err)
		}
		if _, err := r.Describe(t.Context(), tree, "bad"); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "nested too deeply") {
			t.Errorf("Describe: %v", err)
		}
	}
	if _, err := s.Blobs.Remove(t.Context(), store.Collect, d); err != nil {
		t.Fatal(err)
	}
	sweep(t, r)
	if _, err := r.Describe(t.Context(), closed(d), ""); !errors.Is(err, errOpened) {
		t.Errorf("the record has not gone with its package: %v", err)
	}
}

// A package that exhausts the time or the memory of a child is not read again. Which limit it hits first depends on the garbage
// collector.
func TestDescribeLong(t *testing.T) {
	if !rig.Long() {
		rig.Missing(t, "it takes ten seconds of a processor: make nightly runs it")
	}
	s, d := newStore(t)
	r := tfconfig.NewReader(s, 0)
	tree := packedAs(t, d, file("main.tf", "variable \"x\" { default = { a = \"b\" b = "+strings.Repeat("[", 100_000)))
	for _, tree := range []tfconfig.Tree{tree, closed(d)} {
		if _, err := r.Describe(t.Context(), tree, ""); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "reading its configuration takes more than") {
			t.Errorf("Describe: %v", err)
		}
	}
}

// Input that ends a child or exceeds a bound returns an error of one line.
func TestDescribeHostile(t *testing.T) {
	var readmes []tar.Header
	for i := range 20 {
		readmes = append(readmes, file(fmt.Sprintf("examples/%d/README.md", i), strings.Repeat("x", 500<<10)), file(fmt.Sprintf("examples/%d/main.tf", i), ""))
	}
	for name, test := range map[string]struct {
		tree []tar.Header
		want string // of the error
	}{
		"blocks":     {[]tar.Header{file("examples/x/main.tf", strings.Repeat("a {\n", levels))}, "nested too deeply"},
		"brackets":   {[]tar.Header{file("main.tf", "locals {\n x = "+strings.Repeat("[", levels))}, "nested too deeply"},
		"JSON":       {[]tar.Header{file("main.tf.json", strings.Repeat("[", levels))}, "nested too deeply"},
		"float64":    {[]tar.Header{file("main.tf", "variable \"x\" { default = 1e999 }")}, "the configuration in . cannot be described"},
		"number":     {[]tar.Header{file("main.tf", "variable \"x\" { default = 1e999999999 }")}, "the configuration in . cannot be described"},
		"READMEs":    {readmes, "larger than 8 MiB"},
		"no regular": {[]tar.Header{{Name: "README.md", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}}, `"README.md" is not a regular file`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := tfconfig.NewReader(nil, 0)
			_, err := r.Describe(t.Context(), packed(t, test.tree...), "")
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Describe: %v; want an ErrInvalid with %q", err, test.want)
			}
		})
	}
}
