package ledger_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// numbered returns the record of the i-th version of many modules.
func numbered(i int) ledger.Record {
	m := modproxy.Address{Host: "registry.terraform.io", Namespace: "terraform-aws-modules", Name: fmt.Sprintf("module-%d", i/10), System: "aws"}
	return ledgertest.NewRecord(m, fmt.Sprintf("1.%d.0", i%10), fmt.Sprint(i))
}

// addAll adds n records from several goroutines at once.
func addAll(t testing.TB, l *ledger.Log, n, goroutines int) {
	t.Helper()
	var next atomic.Int64
	done := make(chan error)
	for range goroutines {
		go func() {
			var err error
			for i := next.Add(1) - 1; i < int64(n) && err == nil; i = next.Add(1) - 1 {
				err = l.Add(t.Context(), numbered(int(i)))
			}
			done <- err
		}()
	}
	for range goroutines {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// filled returns a directory with a log of n records, written without flushing.
func filled(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir)
	defer l.Close()
	addAll(t, l, n, 64)
	return dir
}

func BenchmarkAdd(b *testing.B) {
	for _, goroutines := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			l, err := ledger.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ResetTimer()
			addAll(b, l, b.N, goroutines)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	const records = 100_000
	dir := filled(b, records)
	for b.Loop() {
		l, err := ledger.Open(dir)
		if err != nil {
			b.Fatal(err)
		}
		l.Close()
	}
}

func BenchmarkLookup(b *testing.B) {
	const records = 10_000
	dir := filled(b, records)
	l := mustOpen(b, dir)
	i := 0
	for b.Loop() {
		r := numbered(i % records)
		if _, err := l.Lookup(b.Context(), r.Ref); err != nil {
			b.Fatal(err)
		}
		i++
	}
}

// BenchmarkDecisions measures 100,000 decisions: about many modules, and about one.
func BenchmarkDecisions(b *testing.B) {
	const decisions = 100_000
	for name, modules := range map[string]int{"modules": 10_000, "module": 1} {
		dir := b.TempDir()
		l, err := ledger.OpenSync(dir, func(*os.File) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		var group sync.WaitGroup
		var next atomic.Int64
		for range 64 {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < decisions; i = int(next.Add(1)) - 1 {
					m := modproxy.Address{Host: "registry.terraform.io", Namespace: "acme", Name: fmt.Sprintf("module-%d", i%modules), System: "aws"}
					if err := l.Decide(b.Context(), ledgertest.NewDecision(m, modproxy.Approve, fmt.Sprintf("1.%d.0", i))); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		l.Close()
		b.Run(name+"/open", func(b *testing.B) {
			for b.Loop() {
				mustOpen(b, dir).Close()
			}
		})
		l = mustOpen(b, dir)
		for _, from := range []int64{0, decisions - 1, decisions} {
			b.Run(fmt.Sprintf("%s/from=%d", name, from), func(b *testing.B) {
				for b.Loop() {
					if list, _, err := l.Decisions(b.Context(), from); err != nil || int64(len(list)) != decisions-from {
						b.Fatal(len(list), err)
					}
				}
			})
		}
		l.Close()
	}
}
