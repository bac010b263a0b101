package pack_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/pack"
)

// Links that lead to nothing in the package are left out and noted. Targets outside the package are never read.
func TestLinksLeftOut(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   tree
		note string // of the link l
	}{
		{"dangling", tree{"l l nowhere"}, `a symbolic link to "nowhere", which does not exist`},
		{"absolute", tree{"l l /etc/passwd"}, `a symbolic link to "/etc/passwd", which is absolute`},
		{"to a drive", tree{`l l C:\x`}, "which does not exist"},
		{"to a share", tree{`l l \\host\x`}, "which does not exist"},
		{"out", tree{"l l ../x"}, `a symbolic link to "../x", which leaves the package`},
		{"out and back in", tree{"l l ../wrap/x"}, "which leaves the package"},
		{"out of a copy", tree{"f d/e/x 1", "l y d/e", "l l y/../../../x"}, "which leaves the package"},
		{"to git", tree{"f .git/config x", "l l .git/config"}, "and packages leave .git out"},
		{"below a file", tree{"l l x/y"}, "whose path leads through a file"},
		{"to a file as a directory", tree{"l l x/"}, "whose path leads through a file"},
		{"to such a link", tree{"l a nowhere", "l l a"}, `a symbolic link to "a", which is or leads through such a link`},
		{"over such a link", tree{"l a /etc", "l l a/passwd"}, "which is or leads through such a link"},
		{"hard, absolute", tree{"h l /etc/passwd"}, `a hard link to "/etc/passwd", which is absolute`},
		{"hard, out", tree{"h l ../x"}, "which leaves the package"},
		{"hard, to a directory", tree{"f d/x 1", "h l d"}, "which is a directory"},
		{"hard, to a link", tree{"l y x", "h l y"}, "which is a symbolic link"},
		{"hard, dangling", tree{"h l nowhere"}, "which does not exist"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := append(tree{"f x 1"}, tt.in...)
			packed, p, err := packTree(t, pack.Limits{StrictNames: true}, "", in)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range listing(t, packed) {
				if strings.HasPrefix(e, "f l") {
					t.Errorf("the package has %q", e)
				}
			}
			wantNoted(t, p, `"l" is left out: `, tt.note)
		})
	}
}

// Names that some file system treats as equal stay as they are and are noted. With StrictNames, they are refused.
func TestAlike(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   tree
		note string
	}{
		{"case of files", tree{"f README 1", "f readme 2"}, `"README" and "readme" differ only in case`},
		{"case of directories", tree{"f Mod/a 1", "f mod/b 1"}, `"Mod" and "mod" differ only in case`},
		{"case of file and directory", tree{"f x/Mod 1", "f x/mod/b 1"}, `"x/Mod" and "x/mod" differ only in case`},
		{"case of copies", tree{"f a/X 1", "f b/x 1", "l b/Y ../a", "l b/y ../a"}, `"b/Y" and "b/y" differ only in case`},
		{"case beyond ASCII", tree{"f \u00c4 1", "f \u00e4 1"}, "differ only in case"},
		{"case of the Kelvin sign", tree{"f \u212a 1", "f k 1"}, "differ only in case"},
		{"composed or not", tree{"f cafe\u0301.tf 1", "f caf\u00e9.tf 1"}, `some file systems take "cafe\u0301.tf" and "caf\u00e9.tf" for the same name`},
		{"composed or not, of directories", tree{"f \u00e9/a 1", "f e\u0301/b 1"}, "for the same name"},
		{"composed or not, and case", tree{"f \u00c9 1", "f e\u0301 1"}, "for the same name"},
		{"marks in another order", tree{"f a\u0323\u0301 1", "f a\u0301\u0323 1"}, "for the same name"},
		{"the Angstrom sign", tree{"f \u212b 1", "f a\u030a 1"}, "for the same name"},
		{"dot at the end", tree{"f main.tf 1", "f main.tf. 1"}, `take "main.tf" and "main.tf." for the same name`},
		{"dots at the end of a directory", tree{"f mod/a 1", "f Mod../b 1"}, "for the same name"},
		{"stream of a file", tree{"f main.tf 1", "f main.tf::$DATA 1"}, `take "main.tf" and "main.tf::$DATA" for the same name`},
		{"streams of one file", tree{"f main.tf:a 1", "f main.tf:b 1"}, "for the same name"},
		{"stream of a directory", tree{"f mod/a 1", "f mod::$INDEX_ALLOCATION/b 1"}, "for the same name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, p, err := packTree(t, pack.Limits{}, "", tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(t, packed); len(got) < 2 {
				t.Errorf("the package has %q", got)
			}
			if sum, err := pack.Verify(bytes.NewReader(packed), pack.Limits{}); err != nil || sum != p.Sum {
				t.Errorf("Verify = %s, %v, want %s", sum, err, p.Sum)
			}
			wantNoted(t, p, tt.note)
			_, _, err = packTree(t, pack.Limits{StrictNames: true}, "", tt.in)
			wantRefused(t, err, tt.note)
		})
	}
}

// A name that is not UTF-8 stays as it is, in files and directories.
func TestNotUTF8(t *testing.T) {
	in := tree{"f main.tf 1", "f caf\xe9.txt 2", "f d\x81/x 3", "f d\x81/y 4", "f caf\xe8.txt 2", "l link caf\xe9.txt"}
	packed, p, err := packTree(t, pack.Limits{}, "", in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(listing(t, packed), ", "), "f caf\xe8.txt 2, f caf\xe9.txt 2, f d\x81/x 3, f d\x81/y 4, f link 2, f main.tf 1"; got != want {
		t.Errorf("the package has %q, want %q", got, want)
	}
	if sum, err := pack.Verify(bytes.NewReader(packed), pack.Limits{}); err != nil || sum != p.Sum {
		t.Errorf("Verify = %s, %v, want %s", sum, err, p.Sum)
	}
	wantNoted(t, p, `"caf\xe9.txt" is not UTF-8`, `"d\x81" is not UTF-8`)
	if strings.Count(p.Notes, "not UTF-8") != 3 || strings.Contains(p.Notes, "the same name") {
		t.Errorf("notes %q", p.Notes)
	}
	_, _, err = packTree(t, pack.Limits{StrictNames: true}, "", in)
	wantRefused(t, err, `"caf\xe8.txt": the name is not UTF-8, and names are strict`)
}

// If an archive has a name twice, the last entry counts.
func TestTwice(t *testing.T) {
	packed, p, err := packTree(t, pack.Limits{}, "", tree{"f a 1", "f b 1", "l b a", "x a 2"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(listing(t, packed), ", "); got != "x a 2, x b 2" {
		t.Errorf("the package has %s", got)
	}
	wantNoted(t, p, `"a" appears twice; the last one counts`, `"b" appears twice`)
}

func TestSpaceAtTheEnd(t *testing.T) {
	b, err := build(t, pack.Limits{}, tree{"f a/main.tf 1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.File("a /x.tf", false, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	p, err := b.Pack(new(bytes.Buffer), "")
	if err != nil {
		t.Fatal(err)
	}
	wantNoted(t, p, `take "a " and "a" for the same name`)
}

// Notes are limited, in number and in length.
func TestManyNotes(t *testing.T) {
	var links tree
	for i := range 1000 {
		links = append(links, fmt.Sprintf("l %03d %s", i, strings.Repeat("x", 4000)))
	}
	_, long, err := packTree(t, pack.Limits{}, "", append(links, "f main.tf 1"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(long.Notes); n > 5<<10 {
		t.Errorf("notes have %d bytes", n)
	}
	links = links[:0]
	for i := range 1000 {
		links = append(links, fmt.Sprintf("l %03d x", i))
	}
	_, many, err := packTree(t, pack.Limits{}, "", append(links, "f main.tf 1"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(many.Notes, "\n"); len(lines) != 20 || lines[19] != "and 981 more" {
		t.Errorf("notes %q", lines)
	}
}

func wantNoted(t *testing.T, p pack.Packed, what ...string) {
	t.Helper()
	for _, w := range what {
		if !strings.Contains(p.Notes, w) {
			t.Errorf("notes are %q, want %q", p.Notes, w)
		}
	}
}
