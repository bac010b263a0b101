package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/modproxy/modproxy/pack"
)

// A tree becomes a package: a link becomes the file to which it leads, .git is left out, and entries are sorted.
func Example() {
	b, err := pack.New(os.TempDir(), pack.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	for name, content := range map[string]string{"main.tf": "# main", ".git/HEAD": "ref: refs/heads/main", "docs/README.md": "# Docs"} {
		if err := b.File(name, false, strings.NewReader(content)); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.Link("README.md", "docs/README.md"); err != nil {
		log.Fatal(err)
	}
	var packed bytes.Buffer
	if _, err := b.Pack(&packed, ""); err != nil {
		log.Fatal(err)
	}
	list(&packed)
	// Output:
	// README.md: # Docs
	// docs/README.md: # Docs
	// main.tf: # main
}

// list prints the files of a package.
func list(packed io.Reader) {
	zr, err := gzip.NewReader(packed)
	if err != nil {
		log.Fatal(err)
	}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", h.Name, content)
	}
}

// The root of a package may be a subdirectory, for example the only directory in the archive of a release.
func ExampleBuilder_Pack_root() {
	b, err := pack.New(os.TempDir(), pack.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	if err := b.File("network-1.2.0/main.tf", false, strings.NewReader("# main")); err != nil {
		log.Fatal(err)
	}
	var packed bytes.Buffer
	if _, err := b.Pack(&packed, "*"); err != nil {
		log.Fatal(err)
	}
	list(&packed)
	// Output:
	// main.tf: # main
}

// Notes describe differences from the source.
func ExampleBuilder_Pack_notes() {
	b, err := pack.New(os.TempDir(), pack.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	for _, name := range []string{"main.tf", "Main.tf"} {
		if err := b.File(name, false, strings.NewReader("")); err != nil {
			log.Fatal(err)
		}
	}
	if err := b.Link("passwd", "/etc/passwd"); err != nil {
		log.Fatal(err)
	}
	packed, err := b.Pack(io.Discard, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(packed.Notes)
	// Output:
	// "passwd" is left out: a symbolic link to "/etc/passwd", which is absolute
	// "Main.tf" and "main.tf" differ only in case
}

// A package is refused if some system unpacks one of its names outside its directory.
func ExampleBuilder_File_refused() {
	b, err := pack.New(os.TempDir(), pack.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	fmt.Println(b.File("../main.tf", false, strings.NewReader("")))
	// Output:
	// invalid: package: "../main.tf": the name has the component ".."
}

// Verify finds the sum that Pack returned.
func ExampleVerify() {
	b, err := pack.New(os.TempDir(), pack.Limits{})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	if err := b.File("main.tf", false, strings.NewReader("# main")); err != nil {
		log.Fatal(err)
	}
	var packed bytes.Buffer
	p, err := b.Pack(&packed, "")
	if err != nil {
		log.Fatal(err)
	}
	sum, err := pack.Verify(&packed, pack.Limits{})
	fmt.Println(sum == p.Sum, err)
	fmt.Println(sum)
	// Output:
	// true <nil>
	// h1:v4LyAzkMkLT0LAPPJRNn6yQJOYzN4Gp9LO5drItYdKw=
}
