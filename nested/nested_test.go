package nested_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/nested"
)

// Sources that call each other are found once, and each is fetched once for any number of requests.
func TestCycle(t *testing.T) {
	w := newWorld(t, map[string]files{
		"":                 {"main.tf": `module "a" { source = "git::https://a//x?ref=v1" }`, "run.sh": "#!"},
		"https://a?ref=v1": {"x/main.tf": `module "b" { source = "https://b.example/b.zip" }`},
		"https://b.example/b.zip": {"main.tf": "# ä\r\nmodule \"a\" {\r\n\tsource = \"git::https://a?ref=v1\" // c\r\n}\r\n",
			"sub/main.tf": `module "self" { source = "../" }`},
	})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, err := w.read(at); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	root, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	a := address(t, root["main.tf"])
	inA, _, err := w.read(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := strings.CutPrefix(root["main.tf"], `module "a" { source = "`+url+"/"); !ok || !strings.HasSuffix(root["main.tf"], `.tar.gz//x" }`) || root["run.sh"] != "#!" {
		t.Errorf("main.tf is %s", root["main.tf"])
	}
	inB, _, err := w.read(address(t, inA["x/main.tf"]))
	if err != nil || address(t, inB["main.tf"]) != a {
		t.Errorf("b is %q, %v; want the address %s in it", inB, err, a)
	}
	if !strings.HasPrefix(inB["main.tf"], "# ä\r\nmodule \"a\" {\r\n\tsource = \"") || !strings.HasSuffix(inB["main.tf"], ".tar.gz\" // c\r\n}\r\n") {
		t.Errorf("layout is not kept: %q", inB["main.tf"])
	}
	for location, n := range w.fetched {
		if n != 1 {
			t.Errorf("%q is fetched %d times", location, n)
		}
	}
	if pristine, _, err := w.read(vpc); err != nil || pristine["main.tf"] != w.all[""]["main.tf"] {
		t.Errorf("without the mark it is %q, %v", pristine, err)
	}
}

// The same packages are rewritten to the same bytes in another cache, and to other bytes for another public URL.
func TestDeterministic(t *testing.T) {
	all := map[string]files{
		"":          {"main.tf": `module "a" { source = "git::https://a" }`, "b.tf.json": `{"module":{"b":{"source":"https://b.example/b.zip"}}}`},
		"https://a": {"main.tf": ""}, "https://b.example/b.zip": {"main.tf": "# b"},
	}
	_, one, err := newWorld(t, all).read(at)
	_, two, err2 := newWorld(t, all).read(at)
	other := newWorld(t, all)
	config := other.Registry.Config
	config.URL = "https://other.example"
	other.Registry = nested.New(config)
	_, three, err3 := other.read(vpc.With(modproxy.BaseVariant, nested.Base(other.URL)))
	if err := errors.Join(err, err2, err3); err != nil || one != two || one == three {
		t.Errorf("%s, %s; elsewhere %s; %v", one, two, three, err)
	}
	if _, _, err := other.read(at); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("a path for another URL: %v", err)
	}
}

// A source made of locals is rewritten like a literal. A source that depends on a variable stays as it is.
func TestLocals(t *testing.T) {
	const text = "locals { url = \"git::https://a\" }\nvariable \"v\" { default = \"1\" }\n" +
		"module \"a\" { source = local.url }\nmodule \"b\" { source = \"${local.url}?ref=${var.v}\" }\n"
	w := newWorld(t, map[string]files{"": {"main.tf": text}, "https://a": {"main.tf": "# a"}})
	root, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	a, _, err := w.read(address(t, root["main.tf"]))
	if err != nil || a["main.tf"] != "# a" {
		t.Errorf("a is %q, %v", a, err)
	}
	if !strings.Contains(root["main.tf"], "locals { url = \"git::https://a\" }") || !strings.Contains(root["main.tf"], "${local.url}?ref=${var.v}") {
		t.Errorf("%s", root["main.tf"])
	}
	if len(w.left) != 1 || w.left[0] != "main.tf:4: its source depends on a variable" {
		t.Errorf("left: %q", w.left)
	}
}

// Two sources with the same content have one address, whichever of their directories are called.
func TestSame(t *testing.T) {
	same := files{"examples/x/main.tf": `module "b" { source = "git::https://b" }`, "examples/y/main.tf": `module "b" { source = "git::https://b" }`}
	w := newWorld(t, map[string]files{
		"": {"main.tf": `module "one" { source = "git::https://a//examples/x?ref=v1" }`, "z.tf": `module "two" { source = "git::https://a//examples/y?ref=v2" }`,
			"y.tf": `module "three" { source = "git::https://a//examples/x?ref=v1" }`},
		"https://a?ref=v1": same, "https://a?ref=v2": same, "https://b": {"main.tf": ""},
	})
	root, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	if address(t, root["y.tf"]) != address(t, root["z.tf"]) {
		t.Errorf("%q", root)
	}
	a, _, err := w.read(address(t, root["y.tf"]))
	if err != nil {
		t.Fatal(err)
	}
	address(t, a["examples/x/main.tf"])
	address(t, a["examples/y/main.tf"])
}

// A package that is made again must match its record.
func TestRecorded(t *testing.T) {
	w := newWorld(t, map[string]files{"": {"main.tf": `module "a" { source = "git::https://a" }`}, "https://a": {"main.tf": ""}})
	if _, _, err := w.read(at); err != nil {
		t.Fatal(err)
	}
	for rec, err := range w.book.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Variant.Kind == modproxy.RewrittenVariant {
			rec.Sum, rec.Reason = modproxy.NewSum([32]byte{9}), "a test"
			if err := w.book.Accept(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
			w.cache.Forget(modproxy.Ref{})
		}
	}
	if _, _, err := w.read(at); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("what is not as recorded: %v", err)
	}
}

// If an operator accepts other content of a source, its address changes, and the old address is not found.
func TestAccepted(t *testing.T) {
	w := newWorld(t, map[string]files{
		"":          {"main.tf": `module "a" { source = "git::https://a" }`},
		"https://a": {"main.tf": `module "b" { source = "git::https://b" }`}, "https://b": {"main.tf": "# before"},
	})
	before, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	old := address(t, before["main.tf"])
	w.all["https://b"] = files{"main.tf": "# after"}
	for rec, err := range w.book.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if rec.Variant.Kind != modproxy.SourceVariant {
			continue
		}
		if _, err := w.cache.Discard(t.Context(), rec.Ref); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.read(at); err != nil { // the rewritten package is stored
		t.Fatal(err)
	}
	b, _, _ := w.Source(vpc, "git::https://b")
	_, err = w.cache.Package(t.Context(), b)
	if !errors.Is(err, modproxy.ErrChanged) {
		t.Fatalf("another content: %v", err)
	}
	for d, err := range w.book.Drifts(t.Context()) {
		if err == nil {
			err = w.book.Accept(t.Context(), modproxy.Record{Ref: d.Ref, Sum: d.Offered, Subdir: ".", Time: time.Now(), Reason: "a test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.cache.Forget(modproxy.Ref{})
	after, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	fresh := address(t, after["main.tf"])
	inA, _, err := w.read(fresh)
	if err != nil || fresh == old {
		t.Fatalf("%s, and it was %s: %v", fresh, old, err)
	}
	if inB, _, err := w.read(address(t, inA["main.tf"])); err != nil || inB["main.tf"] != "# after" {
		t.Errorf("b is %q, %v", inB, err)
	}
	if _, _, err := w.read(old); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("an old address: %v", err)
	}
}

// An unavailable or unreadable source refuses the version, with its position.
func TestRefusedPackages(t *testing.T) {
	many := files{}
	for i := range 101 {
		many[fmt.Sprintf("m%03d.tf", i)] = fmt.Sprintf(`module "m%d" { source = "git::https://m%d" }`, i, i)
	}
	manyWorld := map[string]files{"": many}
	for i := range 101 {
		manyWorld[fmt.Sprintf("https://m%d", i)] = files{"x": ""}
	}
	bomb := strings.Repeat("[", 200_000)
	for name, test := range map[string]struct {
		all  map[string]files
		is   error
		says string
	}{
		"gone": {map[string]files{"": {"a/main.tf": "\n\nmodule \"a\" { source = \"git::https://a?ref=v1\" }"}}, modproxy.ErrNotFound,
			"package registry.example.com/acme/vpc/aws 1.0.0: nested source git::https://a (a/main.tf:3): not found: no such repository"},
		"gone below": {map[string]files{"": {"main.tf": `module "a" { source = "git::https://u:p@a/x.git" }`}, "https://u:p@a/x.git": {"main.tf": `module "b" { source = "https://b/b.zip" }`}},
			modproxy.ErrNotFound, "nested source https://b/b.zip (main.tf:1, in git::https://a/x.git (main.tf:1)): not found"},
		"too many": {manyWorld, modproxy.ErrInvalid, "more than 100 nested sources; git::https://m100 (m100.tf:1) is one too many"},
		"a bomb":   {map[string]files{"": {"main.tf": "x = " + bomb}}, modproxy.ErrInvalid, "its configuration is nested too deeply"},
		"a bomb below": {map[string]files{"": {"main.tf": `module "a" { source = "git::https://a" }`}, "https://a": {"main.tf": "x = " + bomb}},
			modproxy.ErrInvalid, "nested source git::https://a (main.tf:1): its configuration: invalid: its configuration is nested too deeply"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.all)
			_, _, err := w.read(at)
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "u:p") {
				t.Errorf("%v; want %v and %q", err, test.is, test.says)
			}
			_, err = w.Registry.Location(t.Context(), vpc)
			for again := 0; err == nil && again < 20; again++ { // the request waits only a few seconds
				_, err = w.Registry.Location(t.Context(), vpc)
			}
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("location: %v", err)
			}
			if _, _, err := w.read(vpc); err != nil {
				t.Errorf("pristine: %v", err)
			}
		})
	}
}

// Sources that stay as they are are reported and not fetched. Examples and tests are not rewritten unless they are called.
func TestLeft(t *testing.T) {
	w := newWorld(t, map[string]files{
		"": {
			"main.tf": `module "s3" { source = "s3::https://a/b.zip" }
module "dynamic" { source = "git::https://a?ref=${var.x}" }
module "registry" { source = "acme/network/aws" }
module "local" { source = "./sub" }
module "absolute" { source = "/opt/x" }
module "own" { source = "https://modules.example.com/x.tar.gz" }
module "a" { source = "git::https://a//examples/x" }
`, "sub/main.tf": "", "examples/main.tf": `module "gone" { source = "git::https://gone" }`, "broken/main.tf": "{",
		},
		"https://a": {"examples/x/main.tf": `module "b" { source = "git::https://b" }`, "examples/y/main.tf": `module "gone" { source = "git::https://gone" }`},
		"https://b": {"main.tf": ""},
	})
	root, _, err := w.read(at)
	if err != nil {
		t.Fatal(err)
	}
	if root["examples/main.tf"] != w.all[""]["examples/main.tf"] || strings.Count(root["main.tf"], url) != 2 {
		t.Errorf("%q", root)
	}
	inA, _, err := w.read(address(t, root["main.tf"][strings.Index(root["main.tf"], `module "a"`):]))
	if err != nil {
		t.Fatal(err)
	}
	address(t, inA["examples/x/main.tf"])
	if inA["examples/y/main.tf"] != w.all["https://a"]["examples/y/main.tf"] {
		t.Errorf("%q", inA)
	}
	want := []string{"broken/main.tf:1: ", "main.tf:1: its source needs the getter \"s3\"", "main.tf:2: its source refers to var.x", "main.tf:5: its source is a path on the client's machine"}
	if len(w.left) != len(want) {
		t.Fatalf("left: %q", w.left)
	}
	for i := range want {
		if !strings.HasPrefix(w.left[i], want[i]) {
			t.Errorf("left: %q; want %q", w.left[i], want[i])
		}
	}
}
