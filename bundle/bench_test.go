package bundle_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkExportImport measures the cost of an export and an import for each byte.
func BenchmarkExportImport(b *testing.B) {
	a := newSide(b)
	chunk := make([]byte, 1<<20)
	for i := range 32 {
		random := rand.NewChaCha8([32]byte{byte(i)})
		random.Read(chunk)
		a.keep(network.At(fmt.Sprintf("1.%d.0", i)), string(chunk))
	}
	whole := a.export(nil)
	b.Run("export", func(b *testing.B) {
		b.SetBytes(int64(len(whole)))
		for b.Loop() {
			a.export(nil)
		}
	})
	b.Run("import", func(b *testing.B) {
		b.SetBytes(int64(len(whole)))
		for b.Loop() {
			b.StopTimer()
			to := newSide(b)
			x := to.importer(a)
			b.StartTimer()
			if _, err := states(x, b.Context(), whole); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("kept", func(b *testing.B) {
		b.SetBytes(int64(len(whole)))
		to := newSide(b)
		if _, err := to.take(a, whole); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := states(to.importer(a), b.Context(), whole); err != nil {
				b.Fatal(err)
			}
		}
	})
}
