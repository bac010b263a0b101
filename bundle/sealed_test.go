package bundle_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/store"
)

// A manifest has one signature in one form. Further signatures, which are not verified, would give other bytes of the same bundle.
func TestOneSignature(t *testing.T) {
	a, whole := twoPackages(t)
	is := files(t, whole)
	tr := tar.NewReader(bytes.NewReader(whole))
	_, err := tr.Next()
	must(t, err)
	manifest, err := io.ReadAll(tr)
	must(t, err)
	text, _, _ := bytes.Cut(manifest, []byte("\n\n"))
	other, err := newSide(t).log.SignBundle(append(text, '\n'))
	must(t, err)
	_, signature, _ := bytes.Cut(other, []byte("\n\n"))
	for what, manifest := range map[string][]byte{
		"another signature": append(bytes.Clone(manifest), signature...),
		"the same twice":    append(bytes.Clone(manifest), manifest[len(text)+2:]...),
		"another spelling":  bytes.Replace(manifest, []byte("=\n"), []byte("=\r\n"), 1),
	} {
		var changed bytes.Buffer
		tw := tar.NewWriter(&changed)
		must(t, tw.WriteHeader(&tar.Header{Name: "manifest", Size: int64(len(manifest)), Mode: 0o644, Format: tar.FormatUSTAR}))
		_, err := tw.Write(manifest)
		must(t, errors.Join(err, tw.Flush()))
		for _, file := range is[1:] {
			changed.Write(file)
		}
		changed.Write(make([]byte, 1024))
		if got, err := newSide(t).take(a, changed.Bytes()); !errors.Is(err, modproxy.ErrInvalid) || got != "" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// A damaged package is not listed in the index, and the others are exported.
func TestExportDamaged(t *testing.T) {
	a, b := newSideOf(t, store.Config{Memory: -1}), newSide(t) // a reads packages from disk
	a.keep(network.At("1.0.0"), "one")
	name := a.packed("one").Digest.String()
	at := filepath.Join(a.dir, "blobs", "v1", "sha256", name[:2], name)
	must(t, errors.Join(os.Chmod(at, 0o600), os.WriteFile(at, make([]byte, a.packed("one").Size), 0o600)))
	a.keep(network.At("2.0.0"), "two")
	var whole bytes.Buffer
	x := bundle.Exporter{Registry: &policy.Registry{Next: a.cache, Gate: a.gate}, Ledger: a.log, FirstSeen: a.firstSeen}
	must(t, write(t, x, &whole, []modproxy.Ref{network.At("1.0.0"), network.At("2.0.0")}, nil))
	b.wantTake(a, whole.Bytes(), "added")
}
