package nested_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

// calls returns files with n calls. format makes a call of its number.
func calls(n int, format string) files {
	all := files{}
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "module \"m%d\" { source = \"%s\" }\n", i, fmt.Sprintf(format, i))
		if i == n-1 || text.Len() > 100_000 { // rewritten addresses are longer
			all[fmt.Sprintf("f%04d.tf", i)] = text.String()
			text.Reset()
		}
	}
	return all
}

// A version whose packages exceed a bound is refused, and the refusal is remembered for a while.
func TestPlanBounds(t *testing.T) {
	empty := files{"main.tf": ""}
	chain := files{"main.tf": `module "m" { source = "git::https://a//examples/0" }`}
	for i := range 200 {
		chain[fmt.Sprintf("examples/%d/main.tf", i)] = fmt.Sprintf(`module "m" { source = "git::https://a//examples/%d" }`, i+1)
	}
	many := map[string]files{"": calls(5, "git::https://a%d")}
	for i := range 5 {
		many[fmt.Sprintf("https://a%d", i)] = calls(4900, "git::https://a0//modules/%d")
	}
	for name, test := range map[string]struct {
		all  map[string]files
		says string
	}{
		"directories": {map[string]files{"": calls(101, "git::https://a//examples/%d"), "https://a": empty},
			"more than 100 directories of examples and tests are called"},
		"sources": {map[string]files{"": calls(101, "git::https://a%d")}, "more than 100 nested sources"},
		"calls":   {many, "more than 20000 calls"},
		"rounds":  {map[string]files{"": chain, "https://a": chain}, "call each other in more than 10 steps"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.all)
			_, _, err := w.read(at)
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("%v; want an ErrInvalid with %q", err, test.says)
			}
			if _, _, again := w.read(at); again != err {
				t.Errorf("it was planned again: %v", again)
			}
		})
	}
}

// Close waits until its context ends for a preparation that does not end. Afterwards no preparation begins.
func TestClose(t *testing.T) {
	w := newWorld(t, map[string]files{"": {"main.tf": ""}})
	w.mu.Lock() // a fetch of the package waits for this lock
	asked := make(chan error, 1)
	go func() {
		_, _, err := w.read(at)
		asked <- err
	}()
	for len(w.cache.Fetching()) == 0 {
		time.Sleep(time.Millisecond)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Registry.Close(over); !errors.Is(err, context.Canceled) {
		t.Errorf("Close: %v; want that it goes on", err)
	}
	w.mu.Unlock()
	if err := w.Registry.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	<-asked
	if _, _, err := w.read(at); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("afterwards: %v", err)
	}
}
