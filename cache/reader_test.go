package cache_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/modproxy/modproxy/cache/cachetest"
)

// Both readers of packages are readers like any other.
func TestReaders(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 100_000} {
			t.Run(fmt.Sprint(memory, " ", size), func(t *testing.T) {
				f := newFixture(t)
				f.Registry.Memory = memory
				f.next.content, _ = cachetest.Bytes(size, 1)
				p, err := f.Package(t.Context(), vpc.At("1.0.0"))
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if err := iotest.TestReader(p, f.next.content); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// However it is read, a reader gives what it is a reader of.
func TestReadersReadAnyhow(t *testing.T) {
	for _, memory := range []int64{0, -1} {
		f := newFixture(t)
		f.Registry.Memory = memory
		random := rand.New(rand.NewPCG(1, 2))
		for round := range 100 {
			p, err := f.Package(t.Context(), vpc.At("1.0.0"))
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.NewReader(f.next.content)
			for range 8 {
				whence := random.IntN(3)
				offset := random.Int64N(120_000) - []int64{0, 60_000, 110_000}[whence]
				if random.IntN(3) == 0 {
					offset, whence = 0, io.SeekStart
				}
				at, err := p.Seek(offset, whence)
				wantAt, wantErr := want.Seek(offset, whence)
				if at != wantAt || (err == nil) != (wantErr == nil) {
					t.Fatalf("round %d: Seek(%d, %d) = %d, %v; want %d, %v", round, offset, whence, at, err, wantAt, wantErr)
				}
				n := random.Int64N(70_000)
				got, err := io.ReadAll(io.LimitReader(p, n))
				expected, _ := io.ReadAll(io.LimitReader(want, n))
				if err != nil || !bytes.Equal(got, expected) {
					t.Fatalf("round %d: %d bytes, %v; want %d", round, len(got), err, len(expected))
				}
			}
			p.Close()
		}
	}
}

// Memory bounds what is held, readers that do not come to an end included.
func TestMemoryIsBounded(t *testing.T) {
	f := newFixture(t)
	f.Registry.Memory = 1 << 20 // ten of the packages below
	var open []io.Closer
	for i := range 40 {
		content, digest := cachetest.Bytes(100_000, byte(i+1))
		f.next.change(func(n *next) { n.content = content })
		p, err := f.Package(t.Context(), vpc.At(fmt.Sprintf("1.%d.0", i)))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, p)
		// Who reads from memory does not see what becomes of the blob.
		f.blobs.Replace(digest, nil)
		if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d: %d bytes, %v", i, len(got), err)
		}
		used, idle := f.Held()
		if want := int64(100_000 * min(i+1, 10)); used != want || idle != 0 {
			t.Errorf("%d packages are read: %d bytes in memory, %d of them idle; want %d, 0", i+1, used, idle, want)
		}
	}
	// The first is evicted while it is read, and counts until that has ended.
	for _, p := range open[1:] {
		p.Close()
		p.Close()
	}
	f.next.change(func(n *next) { n.content, _ = cachetest.Bytes(100_000, 0) })
	f.fetch(t, "2.0.0")
	if used, idle := f.Held(); used != 1_000_000 || idle != 900_000 {
		t.Errorf("one package is read: %d bytes in memory, %d of them idle", used, idle)
	}
	open[0].Close()
	if used, idle := f.Held(); used != 900_000 || idle != used {
		t.Errorf("at the end: %d bytes in memory, %d of them idle", used, idle)
	}
}
