package pack_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/modproxy/modproxy/pack"
)

// benchFiles returns text made of words: 840 files of 6 kB each, like a large module.
func benchFiles() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 2000)
	for i := range words {
		words[i] = fmt.Sprintf("%x", random.Uint32()>>random.IntN(24))
	}
	files := map[string][]byte{}
	for i := range 840 {
		var b bytes.Buffer
		for b.Len() < 6<<10 {
			fmt.Fprintf(&b, "%s ", words[min(random.IntN(2000), random.IntN(2000))])
		}
		files[fmt.Sprintf("modules/m%02d/file%03d.tf", i%40, i)] = b.Bytes()
	}
	return files
}

func BenchmarkPack(b *testing.B) {
	files, dir := benchFiles(), b.TempDir()
	var size int64
	for _, content := range files {
		size += int64(len(content))
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		p, err := pack.New(dir, pack.Limits{})
		if err != nil {
			b.Fatal(err)
		}
		for name, content := range files {
			if err := p.File(name, false, bytes.NewReader(content)); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := p.Pack(io.Discard, ""); err != nil {
			b.Fatal(err)
		}
		if err := p.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	p, err := pack.New(b.TempDir(), pack.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	var size int64
	for name, content := range benchFiles() {
		size += int64(len(content))
		if err := p.File(name, false, bytes.NewReader(content)); err != nil {
			b.Fatal(err)
		}
	}
	var packed bytes.Buffer
	if _, err := p.Pack(&packed, ""); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pack.Verify(bytes.NewReader(packed.Bytes()), pack.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
