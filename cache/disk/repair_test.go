package disk_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/disk"
)

// A package that is fetched again while verify reads the damaged one stays.
func TestRepairLeavesWhatIsFetchedAgain(t *testing.T) {
	w := newWorld(t)
	s := mustOpen(t, w.dir)
	if err := rewrite(w.blob, "firsT"); err != nil {
		t.Fatal(err)
	}
	rec, again := w.records["1.0.0"], false
	found, _ := verify(t, s, disk.Check{Data: true, Repair: true, Sum: func(r io.Reader) (modproxy.Sum, error) {
		data, err := io.ReadAll(r)
		if string(data) == "firsT" {
			again = true
			err = errors.Join(err, s.Quarantine(rec.Digest), s.Put(t.Context(), rec.Digest, strings.NewReader("first")))
		}
		sum, bad := sumOf(bytes.NewReader(data))
		return sum, errors.Join(err, bad)
	}})
	if data, err := os.ReadFile(w.blob); string(data) != "first" || !again || err != nil {
		t.Errorf("%q is kept, %v; found %q", data, err, found)
	}
}

// What verify takes away, the cache knows to be gone, and has fetched again.
func TestCacheKnowsWhatIsRepaired(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"damaged": func(blob string) error { return rewrite(blob, "firsT") },
		"cut":     func(blob string) error { return os.Truncate(blob, 2) },
		"missing": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			s := mustOpen(t, w.dir)
			reg := &cache.Registry{Index: s, Blobs: s, Uses: s}
			states := func() (list string) {
				for l, err := range reg.List(t.Context(), vpc) {
					if err != nil {
						t.Fatal(err)
					}
					list += map[bool]string{true: "t", false: "-"}[l.There] + map[bool]string{true: "e ", false: "- "}[l.Evicted]
				}
				return list
			}
			if got := states(); got != "t- t- t- " {
				t.Fatalf("at the start: %s", got)
			}
			if err := damage(w.blob); err != nil {
				t.Fatal(err)
			}
			verify(t, s, disk.Check{Data: true, Repair: true, Sum: sumOf, Retire: func(d modproxy.Digest, take func() (bool, error)) error {
				return reg.Retire(t.Context(), d, take)
			}})
			if got := states(); got != "-e t- t- " {
				t.Errorf("afterwards: %s", got)
			}
			if kept, _ := reg.Usage(); kept != 4 {
				t.Errorf("%d bytes are kept", kept)
			}
			if err := reg.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
