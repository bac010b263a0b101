package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/store/disk"
)

// The cost of reading the first-seen times of a module with many versions, and of finding that a list has no new version: with the
// record in memory, and with the record in the store.
func BenchmarkSight(b *testing.B) {
	for _, n := range []int{50, 300, 3000} {
		var versions []string
		for i := range n {
			versions = append(versions, fmt.Sprintf("1.%d.0", i))
		}
		d, err := disk.Open(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		v, err := document(strings.Join(versions, " "))
		if err != nil {
			b.Fatal(err)
		}
		known := history.NewFirstSeen(history.FirstSeenConfig{Records: d.Records()})
		known.See(b.Context(), vpc, v)
		for _, forget := range []bool{false, true} {
			r := known
			name := fmt.Sprintf("%d/remembered", n)
			if forget {
				name = fmt.Sprintf("%d/read", n)
			}
			again := func() {
				if forget {
					r = history.NewFirstSeen(history.FirstSeenConfig{Records: d.Records()})
				}
			}
			b.Run("first seen/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					again()
					if s, err := r.Of(b.Context(), vpc); err != nil || len(s.Versions) != n {
						b.Fatal(len(s.Versions), err)
					}
				}
			})
			b.Run("see/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					again()
					r.See(b.Context(), vpc, v)
				}
			})
		}
	}
}
