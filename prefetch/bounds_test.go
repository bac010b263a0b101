package prefetch_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// A prefetch for one request is bounded in number and in depth, for any number of calls.
func TestPrefetchBounds(t *testing.T) {
	call := func(n int) string {
		return fmt.Sprintf("module \"m%d\" { source = %q }\n", n, fmt.Sprintf("%s/acme/m%d/aws", host, n))
	}
	var wide, deep strings.Builder
	deep.WriteString("-- modules/acme/one/aws/1.0.0/main.tf --\n" + call(1))
	wide.WriteString("-- modules/acme/one/aws/1.0.0/main.tf --\n")
	for n := range 1000 {
		wide.WriteString(call(n))
	}
	for n := range 1000 {
		fmt.Fprintf(&wide, "-- modules/acme/m%d/aws/1.0.0/main.tf --\n", n)
	}
	for n := range 200 {
		fmt.Fprintf(&deep, "-- modules/acme/m%d/aws/1.0.0/main.tf --\n%s", n, call(n+1))
	}
	for name, c := range map[string]struct {
		text              string
		packages, modules int
	}{
		"wide": {wide.String(), 100, 200},
		"deep": {deep.String(), 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			w, r := newWorld(t, c.text)
			ask(t, r, at("one", "1.0.0"))
			w.brought(t, c.packages)
			for end := time.Now().Add(time.Minute); w.Calls("versions") < c.modules && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // a prefetch beyond the bounds would request more in this time
			r.Close()
			w.brought(t, c.packages)
			if n := w.Calls("versions"); n != c.modules {
				t.Errorf("versions were asked for %d times, want %d", n, c.modules)
			}
		})
	}
}

// No child process is started to read a package without calls.
func TestChildren(t *testing.T) {
	children := func() int64 {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(program + ".children")
		if errors.Is(err, fs.ErrNotExist) {
			return 0
		} else if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	w, r := newWorld(t, `
-- modules/acme/one/aws/1.0.0/main.tf --
module "two" { source = "registry.acme.example/acme/two/aws" }
module "three" { source = "registry.acme.example/acme/three/aws" }
-- modules/acme/two/aws/1.0.0/main.tf --
variable "name" { description = "of this module" }
-- modules/acme/two/aws/1.0.0/examples/all/main.tf --
module "two" { source = "../.." }
-- modules/acme/three/aws/1.0.0/main.tf.json --
{"module": {"four": {"source": "registry.acme.example/acme/four/aws"}}}
-- modules/acme/four/aws/1.0.0/main.tf --
`)
	before := children()
	ask(t, r, at("one", "1.0.0"))
	w.brought(t, 3)
	r.Close()
	if n := children() - before; n != 2 {
		t.Errorf("%d children were started, want those for one and three", n)
	}
}
