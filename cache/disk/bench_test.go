package disk_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/cache/cachetest"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/pack"
)

// A package of 100 KiB that is put, then its record, each of them durable.
func BenchmarkKeep(b *testing.B) {
	for _, atOnce := range []int{1, 16} {
		b.Run(fmt.Sprint(atOnce, " at once"), func(b *testing.B) {
			s := mustOpen(b, b.TempDir())
			var n atomic.Int64
			var group sync.WaitGroup
			b.ResetTimer()
			for range atOnce {
				group.Go(func() {
					data, _ := cachetest.Bytes(100<<10, 1)
					for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
						version := strconv.FormatInt(i, 10)
						copy(data, version)
						digest := modproxy.Digest(sha256.Sum256(data))
						err := errors.Join(s.Put(b.Context(), digest, bytes.NewReader(data)),
							s.PutPackage(vpc, version, cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: int64(len(data))}))
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packages/s")
		})
	}
}

// Reading everything: 64 packages of about 1 MiB, of which half is compressible.
func BenchmarkVerifyData(b *testing.B) {
	s := mustOpen(b, b.TempDir())
	random := rand.NewChaCha8([32]byte{1})
	var total int64
	for i := range 64 {
		content := make([]byte, 1<<20)
		random.Read(content)
		var packed bytes.Buffer
		p, err := pack.New(b.TempDir(), pack.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		err = errors.Join(
			p.File("main.tf", false, bytes.NewReader(content[:512<<10])),
			p.File("README.md", false, bytes.NewReader(bytes.Repeat(content[:1<<10], 512))),
		)
		packedAs, errPack := p.Pack(&packed, "")
		digest := modproxy.Digest(sha256.Sum256(packed.Bytes()))
		err = errors.Join(err, errPack, p.Close(), s.Put(b.Context(), digest, &packed),
			s.PutPackage(vpc, fmt.Sprint("1.0.", i), cache.PackageRecord{Digest: digest, Sum: packedAs.Sum, Size: packedAs.Size}))
		if err != nil {
			b.Fatal(err)
		}
		total += packedAs.Size
	}
	for name, sum := range map[string]func(io.Reader) (modproxy.Sum, error){
		"digest":             nil,
		"digest and content": func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, pack.Limits{}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				out, err := s.Verify(b.Context(), disk.Check{Data: true, Sum: sum})
				if err != nil || out.Damage > 0 || out.Read != total {
					b.Fatalf("%+v, %v", out, err)
				}
			}
		})
	}
}

// A catalogue of MODPROXY_CATALOGUE versions, 1,000 without.
func BenchmarkCatalogue(b *testing.B) {
	versions := 1000
	if text := os.Getenv("MODPROXY_CATALOGUE"); text != "" {
		var err error
		if versions, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	dir := b.TempDir()
	s := mustOpen(b, dir)
	for i := range versions {
		m := vpc
		m.Name = fmt.Sprint("m", i/10)
		data := []byte(strconv.Itoa(i))
		digest := modproxy.Digest(sha256.Sum256(data))
		err := errors.Join(s.Put(b.Context(), digest, bytes.NewReader(data)),
			s.PutPackage(m, fmt.Sprintf("1.%d.0", i%10), cache.PackageRecord{Digest: digest, Sum: "h1:a", Size: int64(len(data))}))
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if out, err := s.Verify(b.Context(), disk.Check{}); err != nil || out.Damage > 0 || out.Records != versions {
				b.Fatalf("%+v, %v", out, err)
			}
		}
	})
	b.Run("lookup", func(b *testing.B) {
		b.ReportAllocs()
		m := vpc
		m.Name = "m7"
		for b.Loop() {
			if _, err := s.Package(m, "1.3.0"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			s.Close()
			s = mustOpen(b, dir)
		}
	})
	b.Run("rebuild", func(b *testing.B) {
		s.Close()
		for b.Loop() {
			if out, err := disk.Rebuild(b.Context(), dir, nil); err != nil || out.Packages != versions {
				b.Fatalf("%+v, %v", out, err)
			}
		}
	})
}
