package pack_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy/pack"
)

// module is a tree with every kind of entry that modules have.
var module = tree{
	"f main.tf module \"a\" {}",
	"f variables.tf ",
	"x scripts/deploy.sh #!/bin/sh",
	"f modules/vpc/main.tf vpc",
	"f modules/vpc/files/\u00fcber \u4e16\u754c.json {}",
	"f modules/vpc/files/u\u0308ber2.json {}",
	"l modules/vpc/versions.tf ../../versions.tf",
	"f versions.tf terraform {}",
	"l examples/complete/module ../../modules/vpc",
	"l examples/complete/run.sh ../../bin/run",
	"l bin/run ../scripts/deploy.sh",
	"l latest examples/complete",
	"h scripts/copy.sh scripts/deploy.sh",
	"f crlf.txt a\r\nb\r\n",
	"f " + strings.Repeat("deep/", 40) + "main.tf deep",
	"f " + strings.Repeat("n", 120) + "/" + strings.Repeat("m", 200) + " long",
}

// write creates the tree on disk, with links as links.
func write(t *testing.T, dir string, entries tree) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range entries {
		kind, rest, _ := strings.Cut(e, " ")
		name, value, _ := strings.Cut(rest, " ")
		if strings.HasSuffix(rest, ".json {}") {
			name, value = strings.TrimSuffix(rest, " {}"), "{}"
		}
		name = filepath.Join(dir, name)
		check(os.MkdirAll(filepath.Dir(name), 0o755))
		switch kind {
		case "f":
			check(os.WriteFile(name, []byte(value), 0o640))
		case "x":
			check(os.WriteFile(name, []byte(value), 0o700))
		case "l":
			check(os.Symlink(value, name))
		case "h":
			check(os.Link(filepath.Join(dir, value), name))
		}
	}
}

// addDir adds the content of dir to a builder, with links as links.
func addDir(t *testing.T, b *pack.Builder, dir string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			return b.Link(name, target)
		}
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		return b.File(name, info.Mode()&0o100 != 0, f)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// read returns the content below dir for a program that follows links.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	var below func(name string)
	below = func(name string) {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := path.Join(name, e.Name())
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				below(name)
				continue
			}
			content, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[name] = fmt.Sprintf("%v %q", info.Mode()&0o100 != 0, content)
		}
	}
	below(".")
	return files
}

// tar unpacks a package to the same files as the tree on disk, read through its links.
func TestFidelity(t *testing.T) {
	dir, unpacked := t.TempDir(), t.TempDir()
	write(t, dir, module)
	b, err := build(t, pack.Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	addDir(t, b, dir)
	var out bytes.Buffer
	p, err := b.Pack(&out, "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("tar", "-xpz", "-C", unpacked)
	cmd.Stdin = &out
	if msg, err := cmd.CombinedOutput(); err != nil || len(msg) != 0 {
		t.Fatalf("tar: %v\n%s", err, msg)
	}
	if diff := cmp.Diff(read(t, dir), read(t, unpacked)); diff != "" {
		t.Errorf("-on disk +unpacked:\n%s", diff)
	}
	err = filepath.WalkDir(unpacked, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() && info.Mode() != 0o644 && info.Mode() != 0o755 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := dirhash.HashDir(unpacked, "", dirhash.Hash1)
	if err != nil || want != string(p.Sum) {
		t.Errorf("sum is %s, HashDir says %s, %v", p.Sum, want, err)
	}
}

// The same tree is packed to the same bytes, in any order of adding, and however often it is packed.
func TestSameBytes(t *testing.T) {
	want, first, err := packTree(t, pack.Limits{}, "", module)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		shuffled := append(tree{}, module...)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		b, err := build(t, pack.Limits{}, shuffled)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			var out bytes.Buffer
			p, err := b.Pack(&out, "")
			if err != nil || p.Sum != first.Sum || !bytes.Equal(out.Bytes(), want) {
				t.Fatalf("packed %s, %v, want %s and the same bytes", p.Sum, err, first.Sum)
			}
		}
	}
	// The bytes may change with a compressor. The sum never changes.
	const known = "h1:YzZGx9IP43ELRFV+mnBv/mW6G6iOfN9JKjlj9RRfYwM="
	if first.Sum != known {
		t.Errorf("sum is %s, was %s when this test was written", first.Sum, known)
	}
}
