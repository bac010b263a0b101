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

// Reading everything: MODPROXY_PACKAGES packages, 40 without, that look like large
// modules: 350 small files of text each, about 400 KiB packed and 2 MiB unpacked.
func BenchmarkVerifyData(b *testing.B) {
	s := mustOpen(b, b.TempDir())
	random := rand.New(rand.NewPCG(1, 2))
	lines := textLines(random)
	spool := b.TempDir()
	var total, largest int64
	for i := range fromEnv(b, "MODPROXY_PACKAGES", 40) {
		var packed bytes.Buffer
		p, err := pack.New(spool, pack.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		for n := range 350 {
			err = errors.Join(err, p.File(fmt.Sprintf("modules/m%02d/file%03d.tf", n%20, n), false, bytes.NewReader(text(random, lines, 6<<10))))
		}
		packedAs, errPack := p.Pack(&packed, "")
		digest := modproxy.Digest(sha256.Sum256(packed.Bytes()))
		err = errors.Join(err, errPack, p.Close(), s.Put(b.Context(), digest, &packed),
			s.PutPackage(vpc, fmt.Sprint("1.0.", i), cache.PackageRecord{Digest: digest, Sum: packedAs.Sum, Size: packedAs.Size}))
		if err != nil {
			b.Fatal(err)
		}
		total, largest = total+packedAs.Size, max(largest, packedAs.Size)
	}
	b.Logf("packages of up to %d KiB", largest>>10)
	for _, bb := range []struct {
		name string
		sum  func(io.Reader) (modproxy.Sum, error)
	}{
		{"digest", nil},
		{"digest and content", func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, pack.Limits{}) }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(total)
			b.ReportAllocs()
			for b.Loop() {
				out, err := s.Verify(b.Context(), disk.Check{Data: true, Sum: bb.sum})
				if err != nil || out.Damage > 0 || out.Read != total {
					b.Fatalf("%+v, %v", out, err)
				}
			}
		})
	}
}

// textLines are the lines that text is made of, of which some are much more common
// than others.
func textLines(random *rand.Rand) []string {
	words := make([]string, 400)
	for i := range words {
		words[i] = fmt.Sprintf("%x", random.Uint64()>>random.IntN(50))
	}
	lines := make([]string, 4000)
	for i := range lines {
		lines[i] = fmt.Sprintf("  %s_%s = var.%[1]s.%[3]s\n", words[random.IntN(400)], words[random.IntN(400)], words[random.IntN(400)])
	}
	return lines
}

// text is about size bytes, which compress as well as the text of modules does.
func text(random *rand.Rand, lines []string, size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(lines[min(random.IntN(len(lines)), random.IntN(len(lines)))])
	}
	return b.Bytes()
}

// fromEnv is the number that an environment variable has.
func fromEnv(b *testing.B, name string, otherwise int) int {
	b.Helper()
	value := os.Getenv(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// A catalogue of MODPROXY_CATALOGUE versions, 1,000 without.
func BenchmarkCatalogue(b *testing.B) {
	versions := fromEnv(b, "MODPROXY_CATALOGUE", 1000)
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
