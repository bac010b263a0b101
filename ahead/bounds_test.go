package ahead_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// What is read ahead for one question is bounded in number and in depth, whatever is called.
func TestBounds(t *testing.T) {
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
			for end := time.Now().Add(20 * time.Second); w.Calls("versions") < c.modules && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond) // in which there would be more
			r.Close()
			w.brought(t, c.packages)
			if n := w.Calls("versions"); n != c.modules {
				t.Errorf("versions were asked for %d times, want %d", n, c.modules)
			}
		})
	}
}
