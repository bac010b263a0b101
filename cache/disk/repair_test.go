package disk_test

import (
	"bytes"
	"errors"
	"fmt"
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
				for l, err := range reg.List(t.Context(), nil, vpc) {
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

// Where an older copy came back beside the index, say with a backup, the record
// counts that the ledger has.
func TestPinnedRecordCounts(t *testing.T) {
	for name, mend := range map[string]func(t *testing.T, w world, pinned func(modproxy.Module, string) (modproxy.Sum, error)) error{
		"verify": func(t *testing.T, w world, pinned func(modproxy.Module, string) (modproxy.Sum, error)) error {
			s := mustOpen(t, w.dir)
			verify(t, s, disk.Check{Repair: true, Pinned: pinned})
			return s.Close()
		},
		"rebuild": func(t *testing.T, w world, pinned func(modproxy.Module, string) (modproxy.Sum, error)) error {
			out, err := disk.Rebuild(t.Context(), w.dir, pinned)
			if len(out.Conflicts) != 1 {
				t.Errorf("conflicts: %q", out.Conflicts)
			}
			return err
		},
	} {
		for _, newer := range []bool{true, false} { // the record that counts
			t.Run(fmt.Sprint(name, newer), func(t *testing.T) {
				w := newWorld(t)
				first, second := w.records["1.0.0"], w.records["2.0.0"]
				copied, err := os.ReadFile(w.sidecar)
				if err != nil {
					t.Fatal(err)
				}
				s := mustOpen(t, w.dir)
				if err := errors.Join(
					s.ReplacePackage(vpc, "1.0.0", first.Sum, second), s.Close(),
					os.WriteFile(w.sidecar, copied, 0o600),
				); err != nil {
					t.Fatal(err)
				}
				want := first
				if newer {
					want = second
				}
				if err := mend(t, w, func(_ modproxy.Module, version string) (modproxy.Sum, error) {
					if version == "1.0.0" {
						return want.Sum, nil
					}
					return second.Sum, nil
				}); err != nil {
					t.Fatal(err)
				}
				s = mustOpen(t, w.dir)
				if found, _ := verify(t, s, disk.Check{}); found != "" {
					t.Errorf("then: %s", found)
				}
				if rec, err := s.Package(vpc, "1.0.0"); rec != want || err != nil {
					t.Errorf("%+v, %v", rec, err)
				}
			})
		}
	}
}
