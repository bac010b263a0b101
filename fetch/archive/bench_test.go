package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/modproxy/modproxy/fetch/archive"
	"github.com/modproxy/modproxy/pack"
)

// BenchmarkUnpack reads 840 files of 6 kB of words in each format.
func BenchmarkUnpack(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var entries []entry
	var parts []part
	for i := range 840 {
		var content bytes.Buffer
		for content.Len() < 6<<10 {
			fmt.Fprintf(&content, "%x ", min(random.IntN(2000), random.IntN(2000)))
		}
		name := fmt.Sprintf("modules/m%02d/file%03d.tf", i%40, i)
		entries = append(entries, file(name, content.String()))
		parts = append(parts, part{name: name, content: content.String(), method: 8})
	}
	tarball := tarOf(b, entries...)
	for _, bench := range []struct {
		format archive.Format
		data   []byte
	}{
		{archive.TarGzip, gzipped(b, tarball)},
		{archive.TarXz, compressed(b, tarball, toXz)},
		{archive.Zip, zipOf(b, nil, parts...)},
	} {
		b.Run(string(bench.format), func(b *testing.B) {
			dir := b.TempDir()
			b.SetBytes(int64(len(tarball)))
			b.ReportAllocs()
			for b.Loop() {
				p, err := pack.New(dir, pack.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				if err := archive.Unpack(context.Background(), bytes.NewReader(bench.data), int64(len(bench.data)), bench.format, p); err != nil {
					b.Fatal(err)
				}
				if err := p.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
