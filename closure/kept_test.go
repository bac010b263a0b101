package closure_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// newStore returns a store with a blob.
func newStore(t *testing.T) (*store.Store, modproxy.Digest) {
	t.Helper()
	d, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	digest := modproxy.Digest(sha256.Sum256([]byte("x")))
	if err := d.Blobs().Put(t.Context(), digest, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	return &store.Store{Records: d.Records(), Blobs: d.Blobs(), Aside: d}, digest
}

var errOpened = errors.New("opened")

// closed is a package that cannot be opened.
func closed(d modproxy.Digest) closure.Tree {
	return closure.Package(d, func() (io.ReadCloser, error) { return nil, errOpened })
}

// What was read of a package is not read again, also when it cannot be read.
func TestKept(t *testing.T) {
	s, d := newStore(t)
	r := closure.Reader{Store: s}
	o := closure.Options{Client: closure.OpenTofu}
	if _, err := r.Read(t.Context(), closed(d), o); !errors.Is(err, errOpened) {
		t.Fatalf("nothing is kept: %v", err)
	}
	if _, err := r.Read(t.Context(), packedAs(t, d, file("main.tf", good)), o); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Read(t.Context(), closed(d), o); err != nil || len(c.Calls) != 1 {
		t.Errorf("what was read is not kept: %+v, %v", c, err)
	}
	for _, other := range []closure.Options{{Client: closure.Terraform}, {Client: o.Client, Dir: "x"}, {Client: o.Client, Tests: true}} {
		if _, err := r.Read(t.Context(), closed(d), other); !errors.Is(err, errOpened) {
			t.Errorf("Read %+v: %v; want it read anew", other, err)
		}
	}
	o.Dir = "bad"
	tree := packedAs(t, d, file("bad/main.tf", strings.Repeat("a {\n", 100_000)))
	for _, tree := range []closure.Tree{tree, closed(d)} {
		if _, err := r.Read(t.Context(), tree, o); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "too deeply") {
			t.Errorf("Read: %v", err)
		}
	}
	closure.Sweep(&r, t.Context())
	if _, err := r.Read(t.Context(), closed(d), o); errors.Is(err, errOpened) {
		t.Error("the record of a package that is kept has gone")
	}
	if _, err := s.Blobs.Remove(t.Context(), store.Collect, d); err != nil {
		t.Fatal(err)
	}
	closure.Sweep(&r, t.Context())
	if _, err := r.Read(t.Context(), closed(d), o); !errors.Is(err, errOpened) {
		t.Errorf("the record has not gone with its package: %v", err)
	}
}

// A package is read again only for variables that change its sources and versions. What is made of others is not known.
func TestVariables(t *testing.T) {
	s, d := newStore(t)
	r := closure.Reader{Store: s}
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
	given := func(v, name string) closure.Options {
		args := map[string]closure.Arg{"other": {Value: json.RawMessage(`1`)}}
		for key, value := range map[string]string{"v": v, "name": name} {
			if value != "" {
				args[key] = closure.Arg{Value: json.RawMessage(value)}
			}
		}
		return closure.Options{Client: closure.OpenTofu, Vars: args}
	}
	read := func(tree closure.Tree, o closure.Options) string {
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
