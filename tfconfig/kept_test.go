package tfconfig_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/tfconfig"
)

// newStore returns a store with a blob.
func newStore(t *testing.T) (*store.Store, modproxy.Digest) {
	t.Helper()
	d, err := disk.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	digest := modproxy.Digest(sha256.Sum256([]byte("x")))
	if err := d.Blobs().Put(t.Context(), digest, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	return store.New(store.Config{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d}), digest
}

var errOpened = errors.New("opened")

// closed is a package that cannot be opened.
func closed(d modproxy.Digest) tfconfig.Tree {
	return tfconfig.PackageTree(d, func() (io.ReadCloser, error) { return nil, errOpened })
}

// Read stores its results and its permanent errors.
func TestKept(t *testing.T) {
	s, d := newStore(t)
	r := tfconfig.NewReader(s, 0)
	o := tfconfig.Options{Client: tfconfig.OpenTofu}
	if _, err := r.Read(t.Context(), closed(d), o); !errors.Is(err, errOpened) {
		t.Fatalf("nothing is kept: %v", err)
	}
	if _, err := r.Read(t.Context(), packedAs(t, d, file("main.tf", good)), o); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Read(t.Context(), closed(d), o); err != nil || len(c.Calls) != 1 {
		t.Errorf("what was read is not kept: %+v, %v", c, err)
	}
	for _, other := range []tfconfig.Options{{Client: tfconfig.Terraform}, {Client: o.Client, Dir: "x"}, {Client: o.Client, Tests: true}} {
		if _, err := r.Read(t.Context(), closed(d), other); !errors.Is(err, errOpened) {
			t.Errorf("Read %+v: %v; want it read anew", other, err)
		}
	}
	o.Dir = "bad"
	tree := packedAs(t, d, file("bad/main.tf", strings.Repeat("a {\n", 100_000)))
	for _, tree := range []tfconfig.Tree{tree, closed(d)} {
		if _, err := r.Read(t.Context(), tree, o); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "too deeply") {
			t.Errorf("Read: %v", err)
		}
	}
	sweep(t, r)
	if _, err := r.Read(t.Context(), closed(d), o); errors.Is(err, errOpened) {
		t.Error("the record of a package that is kept has gone")
	}
	if _, err := s.Blobs.Remove(t.Context(), store.Collect, d); err != nil {
		t.Fatal(err)
	}
	sweep(t, r)
	if _, err := r.Read(t.Context(), closed(d), o); !errors.Is(err, errOpened) {
		t.Errorf("the record has not gone with its package: %v", err)
	}
}

// A package is read again only for variables that change its sources or versions. Values that depend on other variables are unknown.
func TestVariables(t *testing.T) {
	s, d := newStore(t)
	r := tfconfig.NewReader(s, 0)
	tree := packedAs(t, d, file("main.tf", `
variable "v" { default = "1.0" }
variable "name" { default = "x" }
module "m" {
  source  = "acme/m/aws"
  version = var.v
  name    = var.name
  at      = "${var.v}-x"
}
`))
	given := func(v, name string) tfconfig.Options {
		args := map[string]tfconfig.Arg{"other": {Value: json.RawMessage(`1`)}}
		for key, value := range map[string]string{"v": v, "name": name} {
			if value != "" {
				args[key] = tfconfig.Arg{Value: json.RawMessage(value)}
			}
		}
		return tfconfig.Options{Client: tfconfig.OpenTofu, Vars: args}
	}
	read := func(tree tfconfig.Tree, o tfconfig.Options) string {
		c, err := r.Read(t.Context(), tree, o)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines(c), "\n")
	}
	const rest = "\nvariables v"
	if got, want := read(tree, given("", "")), `main.tf:4 m: acme/m/aws "1.0" at="1.0-x" of [v]`+rest; got != want {
		t.Errorf("Read = %s\nwant %s", got, want)
	}
	if got, want := read(tree, given(`"2.0"`, "")), `main.tf:4 m: acme/m/aws "2.0" at="2.0-x" of [v]`+rest; got != want {
		t.Errorf("Read = %s\nwant %s", got, want)
	}
	c, err := r.Read(t.Context(), closed(d), given(`"2.0"`, `"y"`))
	if err != nil || c.Calls[0].Version != "2.0" || c.Calls[0].Args["name"].Value != nil || c.Calls[0].Args["name"].Dynamic == "" {
		t.Errorf("Read = %+v, %v; want it as it is kept, and name not known", c, err)
	}
}

func sweep(t *testing.T, r *tfconfig.Reader) {
	t.Helper()
	if err := r.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
}

// Stored results stay within a bound for any packages. The newest stay longest.
func TestStored(t *testing.T) {
	s, _ := newStore(t)
	r := tfconfig.NewReader(s, 100_000)
	text := make([]byte, 3000)
	random := rand.NewChaCha8([32]byte{})
	var last modproxy.Digest
	for i := range 40 {
		last = sha256.Sum256([]byte{byte(i)})
		if err := s.Blobs.Put(t.Context(), last, strings.NewReader(string([]byte{byte(i)}))); err != nil {
			t.Fatal(err)
		}
		_, _ = random.Read(text)
		tree := packedAs(t, last, file("main.tf", fmt.Sprintf("module \"m\" { source = \"%x\" }\n", text[:1500])), file("README.md", fmt.Sprintf("%x", text)))
		if _, err := r.Read(t.Context(), tree, tfconfig.Options{Client: tfconfig.OpenTofu}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Describe(t.Context(), tree, ""); err != nil {
			t.Fatal(err)
		}
	}
	var size, n int
	for rec, err := range s.Records.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		size += len(rec.Value)
	}
	if size > 100_000*9/8 || n < 10 {
		t.Errorf("%d records have %d bytes", n, size)
	}
	if _, err := r.Read(t.Context(), closed(last), tfconfig.Options{Client: tfconfig.OpenTofu}); err != nil {
		t.Errorf("the last one: %v", err)
	}
}
