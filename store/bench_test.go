package store_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/storetest"
)

// BenchmarkOpen reads a blob from memory, and a blob that is checked while it is read.
func BenchmarkOpen(b *testing.B) {
	for _, memory := range []int64{0, -1} {
		for _, size := range []int{20 << 10, 5 << 20} {
			b.Run(fmt.Sprintf("memory=%d/size=%d", memory, size), func(b *testing.B) {
				var m storetest.Memory
				s := store.New(store.Config{Records: m.Records(), Blobs: m.Blobs(), Memory: memory})
				data, d := random(size, 1)
				r := store.Record{Ref: refOf("it"), Needs: []modproxy.Digest{d}}
				if _, err := s.Keep(b.Context(), r, store.Content{Digest: d, Size: int64(size), Reader: bytes.NewReader(data)}); err != nil {
					b.Fatal(err)
				}
				b.ResetTimer()
				b.SetBytes(int64(size))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						r, err := s.Open(b.Context(), d, int64(size))
						if err != nil {
							b.Fatal(err)
						}
						_, _ = io.Copy(io.Discard, r)
						r.Close()
					}
				})
			})
		}
	}
}
