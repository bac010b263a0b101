package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
)

// Other users of the bytes of a package are named, at most three.
func TestRemovedText(t *testing.T) {
	p := admin.RemovedPackage{Name: versionname.Name{Module: "a.example/x/y/z", Version: "1.0.0"}, Size: 5, Sum: "h1:x", There: true}
	for i, want := range []string{
		"removed 5B", "removed; its 5B stay for m0, which has the same content", "removed; its 5B stay for m0, m1, which have the same content",
		"removed; its 5B stay for m0, m1, m2, which have the same content", "removed; its 5B stay for m0, m1, m2 and 1 more, which have the same content",
		"removed; its 5B stay for m0, m1, m2 and 2 more, which have the same content",
	} {
		if got := removedText(p, false); !strings.Contains(got, ": "+want+"; when") {
			t.Errorf("%d others: %q; want %q", i, got, want)
		}
		p.Shared = append(p.Shared, fmt.Sprint("m", i))
	}
}
