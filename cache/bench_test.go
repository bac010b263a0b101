package cache_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// onDisk returns a registry over a directory.
func onDisk(b *testing.B, n *next, memory int64) *cache.Registry {
	s, err := disk.Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	r := newRegistry(storetest.Handle{Records: s.Records(), Blobs: s.Blobs(), Quarantine: s}, ledgertest.NewMemory(), n, memory)
	b.Cleanup(func() {
		mustClose(b, r)
		s.Close()
	})
	return r
}

// warm is a registry over a disk that keeps a package of the given size.
func warm(b *testing.B, size int, memory int64) *cache.Registry {
	n := &next{script: script{listed: "1.0.0 1.1.0"}}
	n.content, _ = storetest.Bytes(size, 1)
	r := onDisk(b, n, memory)
	if _, err := r.Versions(b.Context(), vpc); err != nil {
		b.Fatal(err)
	}
	if _, err := read(r, "1.0.0"); err != nil {
		b.Fatal(err)
	}
	return r
}

func BenchmarkVersionsHit(b *testing.B) {
	r := warm(b, 1000, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if v, err := r.Versions(b.Context(), vpc); err != nil || !v.Hit {
				b.Error(err)
			}
		}
	})
}

// The list offline is made again every few seconds.
func BenchmarkVersionsOffline(b *testing.B) {
	n := &next{script: script{listed: "1.0.0"}}
	n.content, _ = storetest.Bytes(1000, 1)
	r := onDisk(b, n, 0)
	for i := range 300 {
		if _, err := read(r, fmt.Sprintf("1.%d.0", i)); err != nil {
			b.Fatal(err)
		}
	}
	away := cache.New(cache.Config{Store: r.Store, Ledger: r.Ledger})
	b.ReportAllocs()
	for b.Loop() {
		away.Forget(vpc.At(""))
		if v, err := away.Versions(b.Context(), vpc); err != nil || len(v.List) != 300 {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkLocationHit(b *testing.B) {
	r := warm(b, 1000, 0)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := r.Location(b.Context(), vpc.At("1.0.0")); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkPackageHit(b *testing.B) {
	for _, c := range []struct {
		name   string
		size   int
		memory int64
	}{
		{"64KiB from memory", 64 << 10, 0},
		{"64KiB from disk", 64 << 10, -1},
		{"10MiB from disk", 10 << 20, -1},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := warm(b, c.size, c.memory)
			b.ReportAllocs()
			b.SetBytes(int64(c.size))
			b.RunParallel(func(pb *testing.PB) {
				buffer := make([]byte, 32<<10)
				for pb.Next() {
					p, err := r.Package(b.Context(), vpc.At("1.0.0"))
					if err != nil {
						b.Error(err)
						return
					}
					if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, p, buffer); n != int64(c.size) || err != nil {
						b.Error(n, err)
					}
					p.Close()
				}
			})
		})
	}
}

// A byte of a large package, which was read before.
func BenchmarkPart(b *testing.B) {
	r := warm(b, 114<<20, -1)
	b.ReportAllocs()
	for b.Loop() {
		p, err := r.Package(b.Context(), vpc.At("1.0.0"))
		if err != nil {
			b.Fatal(err)
		}
		var one [1]byte
		if _, err := p.Seek(50<<20, io.SeekStart); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(p, one[:]); err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

func BenchmarkKeep(b *testing.B) {
	n := &next{}
	r := onDisk(b, n, 0)
	b.ReportAllocs()
	for i := range b.N {
		n.change(func(n *next) { n.content = fmt.Appendf(make([]byte, 100<<10), "%d", i) })
		if _, err := read(r, fmt.Sprintf("1.%d.0", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDetailsHit(b *testing.B) {
	c := newCatalog((&storetest.Memory{}).Handle())
	c.Next = &says{saying: saying{number: 1}}
	b.Cleanup(func() { closeCatalog(b, c) })
	if _, err := c.Details(b.Context(), vpc.At("1.0.0")); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if d, err := c.Details(b.Context(), vpc.At("1.0.0")); err != nil || !d.Hit {
				b.Error(err)
			}
		}
	})
}

// BenchmarkVersionsFromStore reads the documents of many modules, each for the first time.
func BenchmarkVersionsFromStore(b *testing.B) {
	var listed []string
	for i := range 10 {
		listed = append(listed, fmt.Sprintf("1.%d.0", i))
	}
	n := &next{script: script{listed: strings.Join(listed, " ")}}
	r := onDisk(b, n, 0)
	modules := make([]modproxy.Address, 1000)
	for i := range modules {
		modules[i] = vpc
		modules[i].Name = fmt.Sprintf("vpc-%d", i)
		if _, err := r.Versions(b.Context(), modules[i]); err != nil {
			b.Fatal(err)
		}
	}
	again := cache.New(cache.Config{Store: r.Store, Ledger: r.Ledger, Next: n, Lifetimes: cache.Lifetimes{Fresh: time.Hour}})
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(modules) == 0 {
			again = cache.New(cache.Config{Store: r.Store, Ledger: r.Ledger, Next: n, Lifetimes: cache.Lifetimes{Fresh: time.Hour}})
		}
		if v, err := again.Versions(b.Context(), modules[i%len(modules)]); err != nil || !v.Hit {
			b.Fatal(err)
		}
	}
}

// BenchmarkRefresh requests the versions of a module again. All of them are stored.
func BenchmarkRefresh(b *testing.B) {
	var listed []string
	for i := range 10 {
		listed = append(listed, fmt.Sprintf("1.%d.0", i))
	}
	n := &next{script: script{listed: strings.Join(listed, " ")}}
	n.content, _ = storetest.Bytes(1000, 1)
	r := onDisk(b, n, 0)
	for _, version := range listed {
		if _, err := read(r, version); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Refresh(b.Context(), vpc); err != nil {
			b.Fatal(err)
		}
	}
}
