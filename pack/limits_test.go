package pack_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

func TestLimits(t *testing.T) {
	// Every directory links to the next one twice, so that copies double each time.
	var doubling tree
	for i := range 30 {
		doubling = append(doubling, fmt.Sprintf("l d%02d/a ../d%02d", i, i+1), fmt.Sprintf("l d%02d/b ../d%02d", i, i+1))
	}
	empty := append(append(tree{}, doubling...), "d d30", "f x 1")
	full := append(append(tree{}, doubling...), "f d30/x 1")
	noise := make([]byte, 4<<10)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, tt := range []struct {
		name  string
		l     pack.Limits
		in    tree
		why   string
		below pack.Limits // limits that suffice
	}{
		{"entries", pack.Limits{Entries: 2}, tree{"f a 1", "f b 1", "f c 1"}, `"c": more than the 2 entries`, pack.Limits{Entries: 3}},
		{"entries in git", pack.Limits{Entries: 1}, tree{"f .git/a 1", "f b 1"}, "more than the 1 entries", pack.Limits{Entries: 2}},
		{"directories that are not added", pack.Limits{Entries: 3}, tree{"f a/b/c/x 1"}, `"a/b/c": more than the 3 entries`, pack.Limits{Entries: 4}},
		{"copied entries", pack.Limits{Entries: 5}, tree{"f a/x 1", "f a/y 1", "l b a"}, "more than the 5 entries", pack.Limits{Entries: 6}},
		{"bytes", pack.Limits{Bytes: 9}, tree{"f a 12345", "f b 12345"}, `"b": more content than the 9 bytes`, pack.Limits{Bytes: 10}},
		{"copied bytes", pack.Limits{Bytes: 9}, tree{"f a 12345", "l b a"}, `"b": more content than the 9 bytes`, pack.Limits{Bytes: 10}},
		{"path", pack.Limits{Path: 4}, tree{"f a/b/c 1"}, "a name of 5 bytes, more than the 4", pack.Limits{Path: 5}},
		{"copied path", pack.Limits{Path: 4}, tree{"f a/b/c 1"[:7] + " 1", "l d a", "l a/eee b"}, "a name of 5 bytes", pack.Limits{Path: 7}},
		{"packed", pack.Limits{Packed: 4 << 10}, tree{"f a " + string(noise)}, "more than the 4096 bytes that are allowed when packed", pack.Limits{Packed: 5 << 10}},
		{"copies that double", pack.Limits{}, full, "more than the 100000 entries", pack.Limits{}},
		{"empty directories that double", pack.Limits{}, empty, "more than the 100000 entries", pack.Limits{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := packTree(t, tt.l, "", tt.in)
			wantRefused(t, err, tt.why)
			if tt.below == (pack.Limits{}) {
				return
			}
			packed, _, err := packTree(t, tt.below, "", tt.in)
			if err != nil {
				t.Fatalf("with %+v: %v", tt.below, err)
			}
			if _, err := pack.Verify(bytes.NewReader(packed), tt.below); err != nil {
				t.Errorf("Verify with the limits of Pack: %v", err)
			}
		})
	}
}

// The total length of names is limited, and that of targets.
func TestNames(t *testing.T) {
	b, err := build(t, pack.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	target := strings.Repeat("x/../", 800)
	for i := 0; err == nil; i++ {
		err = b.Link(fmt.Sprint(i), target)
	}
	wantRefused(t, err, "all names together are longer")
}

// Names of maximum depth create many directories each. Their memory is limited while they are added, and while such a package
// is verified.
func TestDeepNames(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%04d/", i) + strings.Repeat("a/", 509) + "x" }
	b, err := build(t, pack.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	added := 0
	for err == nil && added < 200 {
		err = b.File(name(added), false, strings.NewReader(""))
		added++
	}
	wantRefused(t, err, "all names together are longer")
	if most := 16 << 20 / (512 * 511); added > most {
		t.Errorf("%d files were added, want at most %d", added, most)
	}
	var headers []tar.Header
	for i := range 200 {
		headers = append(headers, fileHeader(name(i)))
	}
	_, err = pack.Verify(bytes.NewReader(tarball(t, headers...)), pack.Limits{})
	wantRefused(t, err, "all names together are longer")
}

// endless has infinite content.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestEndlessFile(t *testing.T) {
	b, err := build(t, pack.Limits{Bytes: 1 << 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, b.File("zeros", false, endless{}), `"zeros": more content`)
	_, err = b.Pack(io.Discard, "")
	wantRefused(t, err, `"zeros": more content`)
}

// A failure of the caller or the disk differs from a refused package.
func TestTrouble(t *testing.T) {
	if _, err := pack.New(t.TempDir()+"/gone", pack.Limits{}); !errors.Is(err, modproxy.ErrUnavailable) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("New in no directory: %v", err)
	}
	trouble := errors.New("trouble")
	b, err := build(t, pack.Limits{}, tree{"f a 1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pack(brokenWriter{trouble}, ""); !errors.Is(err, trouble) || errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("Pack to a broken writer: %v", err)
	}
	if err := b.File("b", false, io.MultiReader(strings.NewReader("x"), iotest.ErrReader(trouble))); !errors.Is(err, trouble) || errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("File of a broken reader: %v", err)
	}
	if _, err := b.Pack(io.Discard, ""); !errors.Is(err, trouble) {
		t.Errorf("Pack after a broken reader: %v", err)
	}
	closed, err := build(t, pack.Limits{}, tree{"f a 1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Pack(io.Discard, ""); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("Pack when closed: %v", err)
	}
	if _, err := pack.Verify(iotest.ErrReader(trouble), pack.Limits{}); !errors.Is(err, trouble) || errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("Verify of a broken reader: %v", err)
	}
}

type brokenWriter struct{ error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.error }

func TestSpoolHasNoName(t *testing.T) {
	dir := t.TempDir()
	b, err := pack.New(dir, pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.File("a", false, bytes.NewReader(make([]byte, 1<<20))); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("the directory has %v, %v", entries, err)
	}
}

// Packing ends when its context ends.
func TestPackageEnds(t *testing.T) {
	b, err := pack.New(t.TempDir(), pack.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.File("main.tf", false, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, err := b.Package(ctx, t.TempDir(), ""); !errors.Is(err, ended) {
		t.Errorf("Package: %v; want that its context has ended", err)
	}
}
