package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// A data directory made for the measurement is one that modproxy reads, undamaged.
func TestShelf(t *testing.T) {
	const versions = 25
	dir := filepath.Join(t.TempDir(), "data")
	s := &shelf{versions: versions}
	if err := s.fill(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	index, err := disk.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	book, err := ledger.OpenReadOnly(filepath.Join(dir, "ledger"))
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	codec := &cache.PackageCodec{Ledger: book, Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, pack.Limits{}) }}
	kept := store.New(store.Config{
		Records: index.Records(), Blobs: index.Blobs(), Quarantine: index, Kinds: map[store.Kind]store.Codec{cache.PackageKind: codec},
	})
	got, err := kept.Verify(t.Context(), store.Check{Data: true, Found: func(d store.Damage) { t.Error(d) }})
	modules := (versions + versionsOfModule - 1) / versionsOfModule
	if err != nil || got.Records != versions+2*modules || got.Kept != (store.Amount{Blobs: versions, Bytes: s.bytes}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Ten times as many versions may cost ten times as much; very short times are not compared.
func TestScaleGrowth(t *testing.T) {
	r := &scaleReport{Versions: []int{1000, 10_000}}
	for _, values := range [][2]float64{{0.1, 1}, {0.1, 1.2}, {0.001, 0.04}} {
		name := strings.Repeat("x", len(r.Rows)+1)
		r.add(name, "s", values[0])
		r.add(name, "s", values[1])
	}
	r.add(rowIdle, "bytes", 60<<20)
	r.add(rowIdle, "bytes", 70<<20)
	r.judge()
	if len(r.Goals) != 2 || r.Goals[0].Met || r.Goals[0].What != "growth by ten times as many versions: xx, s" || r.Goals[1].Met {
		t.Errorf("%+v", r.Goals)
	}
	if growth := r.Rows[2].Growth[0]; growth != 1 {
		t.Errorf("what takes 40 ms has grown by %v", growth)
	}
	var out bytes.Buffer
	r.writeText(&out)
	if text := out.String(); strings.Count(text, "MISSED") != 2 || !strings.Contains(text, "× 12.0") {
		t.Error(text)
	}
}
