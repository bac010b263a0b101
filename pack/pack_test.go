package pack_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
)

// A tree is the input of a builder, one entry for each string: "f name content", "x name content" for an executable, "l name
// target", "h name target", "d name".
type tree []string

func build(t testing.TB, l pack.Limits, entries tree) (*pack.Builder, error) {
	t.Helper()
	b, err := pack.New(t.TempDir(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, e := range entries {
		kind, rest, _ := strings.Cut(e, " ")
		name, value, _ := strings.Cut(rest, " ")
		switch kind {
		case "f", "x":
			err = b.File(name, kind == "x", strings.NewReader(value))
		case "l":
			err = b.Link(name, value)
		case "h":
			err = b.Hardlink(name, value)
		case "d":
			err = b.Dir(name)
		default:
			t.Fatalf("entry %q", e)
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// packTree returns the package of a tree, and its description.
func packTree(t testing.TB, l pack.Limits, root string, entries tree) ([]byte, pack.Packed, error) {
	t.Helper()
	b, err := build(t, l, entries)
	if err != nil {
		return nil, pack.Packed{}, err
	}
	var out bytes.Buffer
	p, err := b.Pack(&out, root)
	if err == nil && p.Size != int64(out.Len()) {
		t.Errorf("Pack says that it wrote %d bytes, wrote %d", p.Size, out.Len())
	}
	return out.Bytes(), p, err
}

// listing shows a package in the notation of a tree.
func listing(t testing.TB, packed []byte) tree {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	var entries tree
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return entries
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		kind := map[int64]string{0o644: "f", 0o755: "x"}[h.Mode]
		if kind == "" || h.Typeflag != tar.TypeReg || h.Uid+h.Gid != 0 || h.Uname+h.Gname != "" || h.ModTime.Unix() != 0 {
			kind = fmt.Sprintf("%+v", h)
		}
		entries = append(entries, strings.TrimSpace(kind+" "+h.Name+" "+string(content)))
	}
}

// wantRefused checks that err refuses a package for the reason why.
func wantRefused(t testing.TB, err error, why string) {
	t.Helper()
	if !errors.Is(err, modproxy.ErrInvalid) || errors.Is(err, modproxy.ErrUnavailable) {
		t.Fatalf("error is %v, want ErrInvalid", err)
	}
	if !strings.Contains(err.Error(), why) {
		t.Errorf("error is %q, want it to say %q", err, why)
	}
}

func TestPacked(t *testing.T) {
	for _, tt := range []struct {
		name string
		root string
		in   tree
		want tree
	}{
		{"sorted bytewise by path", "", tree{"f b", "f a/b", "f a.tf", "f a-b", "f C"}, tree{"f C", "f a-b", "f a.tf", "f a/b", "f b"}},
		{"executable", "", tree{"x run.sh exit", "f main.tf x"}, tree{"f main.tf x", "x run.sh exit"}},
		{"git left out", "", tree{"f .git/config x", "f a/.GIT/HEAD x", "f sub/.git gitdir", "l x/.Git ..", "d .git", "f .gitignore x", "f a.git/x y"}, tree{"f .gitignore x", "f a.git/x y"}},
		{"directories have no entries", "", tree{"d empty", "d a", "d a/b", "f a/b/c x", "d a"}, tree{"f a/b/c x"}},
		{"link to a file", "", tree{"x a/run.sh x", "l b/run ../a/run.sh"}, tree{"x a/run.sh x", "x b/run x"}},
		{"link to a later file", "", tree{"l a b", "f b x"}, tree{"f a x", "f b x"}},
		{"chain of links", "", tree{"l a d/b", "l d/b ../c", "l c e/../f", "f e/g 1", "f f x"}, tree{"f a x", "f c x", "f d/b x", "f e/g 1", "f f x"}},
		{"link to a directory", "", tree{"f m/a 1", "f m/n/b 2", "l copy m"}, tree{"f copy/a 1", "f copy/n/b 2", "f m/a 1", "f m/n/b 2"}},
		{"link through a link to a directory", "", tree{"f v1/a 1", "l current v1", "l a current/./a"}, tree{"f a 1", "f current/a 1", "f v1/a 1"}},
		{"links in a directory that is linked to", "", tree{"f d/a 1", "l d/b a", "l e d/"}, tree{"f d/a 1", "f d/b 1", "f e/a 1", "f e/b 1"}},
		{"dot-dot goes up from where a link leads", "", tree{"f a/b/c 1", "f a/x 2", "f x 3", "l d a/b", "l y d/../x"}, tree{"f a/b/c 1", "f a/x 2", "f d/c 1", "f x 3", "f y 2"}},
		{"link to its directory", "", tree{"f d/x 1", "l d/a ."}, tree{"f d/a/x 1", "f d/x 1"}},
		{"link to the root", "", tree{"f x 1", "l d/e/a ../.."}, tree{"f d/e/a/x 1", "f x 1"}},
		{"directories that link to each other", "", tree{"l a/x ../b", "l b/y ../a", "f b/f 1"}, tree{"f a/x/f 1", "f b/f 1", "f b/y/x/f 1"}},
		{"link above the root", "w", tree{"f w/x 1", "l w/y .."}, tree{"f x 1", "f y/w/x 1"}},
		{"link to an empty directory", "", tree{"d e", "l f e", "f a 1"}, tree{"f a 1"}},
		{"hard link", "", tree{"x a/b 1", "h c/d a/b"}, tree{"x a/b 1", "x c/d 1"}},
		{"root", "*", tree{"f wrap-1.0/a 1", "f wrap-1.0/m/b 2"}, tree{"f a 1", "f m/b 2"}},
		{"root beside a file", "wrap-?/m*", tree{"f wrap-1/m/b 2", "f wrap-1/mode 3", "f wrap-10/m/c 3"}, tree{"f b 2"}},
		{"links to beside the root", "a", tree{"l a/x ../b", "f b/y 1"}, tree{"f x/y 1"}},
		{"what is beside the root is not noted", "a", tree{"f a/x 1", "l b nowhere", "f B 1"}, tree{"f x 1"}},
		{"composed and decomposed names", "", tree{"f \u00e9.tf 1", "f o\u0301.tf 2"}, tree{"f o\u0301.tf 2", "f \u00e9.tf 1"}},
		{"names that only Windows cannot have", "", tree{"f aux.tf 1", "f con 1", "f LPT1/x 1"}, tree{"f LPT1/x 1", "f aux.tf 1", "f con 1"}},
		{"odd but harmless names", "", tree{"f ab:c 1", "f ...  ", "f -rf 1", "f ~ 1", "f $HOME 1", "f a.. 1"}, tree{"f $HOME 1", "f -rf 1", "f ...", "f a.. 1", "f ab:c 1", "f ~ 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packed, p, err := packTree(t, pack.Limits{}, tt.root, tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, listing(t, packed)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			verified, err := pack.Verify(bytes.NewReader(packed), pack.Limits{})
			if err != nil || verified != p.Sum {
				t.Errorf("Verify = %s, %v, want %s", verified, err, p.Sum)
			}
			if p.Notes != "" {
				t.Errorf("notes %q, want none", p.Notes)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	var chain tree
	for i := range 42 {
		chain = append(chain, fmt.Sprintf("l l%02d l%02d", i, i+1))
	}
	chain = append(chain, "f l42 x")
	for _, tt := range []struct {
		name string
		root string
		in   tree
		why  string
	}{
		{"only a link to nothing", "", tree{"l a b"}, "it has no file"},
		{"nothing", "", nil, "it has no file"},
		{"only directories", "", tree{"d a", "l b a"}, "it has no file"},
		{"only git", "", tree{"f .git/HEAD x"}, "it has no file"},
		{"no name", "", tree{"f "}, "an entry without a name"},
		{"NUL and not UTF-8", "", tree{"f a\xff\x00"}, "control character"},
		{"newline and not UTF-8", "", tree{"f a\xff\n"}, "control character"},
		{"dot-dot and not UTF-8", "", tree{"f a\xff/../b"}, `the component ".."`},
		{"absolute", "", tree{"f /etc/passwd"}, `"/etc/passwd": the name is absolute`},
		{"drive letter", "", tree{"f c:/x"}, `"c:/x": the name begins with a drive letter`},
		{"NUL", "", tree{"f a\x00b"}, "control character"},
		{"newline", "", tree{"f a\nb"}, "control character"},
		{"escape", "", tree{"f a\x1b[2J"}, "control character"},
		{"C1 control", "", tree{"f a\u009b"}, "control character"},
		{"backslash", "", tree{`f ..\x`}, "backslash"},
		{"dot-dot", "", tree{"f a/../../b"}, `the component ".."`},
		{"dot", "", tree{"f ./a"}, `the component "."`},
		{"double slash", "", tree{"f a//b"}, "empty component"},
		{"trailing slash", "", tree{"f a/"}, "empty component"},
		{"long component", "", tree{"f " + strings.Repeat("a", 256)}, "component of 256 bytes"},
		{"long name", "", tree{"f " + strings.Repeat("abc/", 300) + "x"}, "a name of 1201 bytes"},
		{"git for NTFS", "", tree{"f .git./x"}, `take ".git." for .git`},
		{"git for NTFS streams", "", tree{"f a/.git::$INDEX_ALLOCATION/x"}, "for .git"},
		{"git by its short name", "", tree{"f GIT~1/config x"}, "for .git"},
		{"git for HFS+", "", tree{"f .g\u200cit/x"}, "for .git"},
		{"file and directory", "", tree{"f a 1", "f a/b 1"}, `"a": is a file and also a directory`},
		{"directory and file", "", tree{"f a/b 1", "f a 1"}, `"a": is a file and also a directory`},
		{"file and empty directory", "", tree{"f a 1", "d a"}, "also a directory"},
		{"writing through a link", "", tree{"l a /tmp", "f a/b 1"}, `"a": is a symbolic link and also a directory`},
		{"writing through a link inside", "", tree{"l a b", "f a/b 1"}, `"a": is a symbolic link and also a directory`},
		{"right-to-left override", "", tree{"f x\u202egpj.tf 1"}, `"x\u202egpj.tf": the name has a character that changes the direction`},
		{"right-to-left isolate", "", tree{"f a/\u2067x/b 1"}, "changes the direction"},
		{"empty link", "", tree{"l a "}, "a symbolic link to nothing"},
		{"long link", "", tree{"l a " + strings.Repeat("x", 4097)}, "a target of 4097 bytes"},
		{"link to itself", "", tree{"l a a"}, `"a": is a link that leads back to itself`},
		{"links to each other", "", tree{"l a b", "l b c/../a", "f c/x 1"}, "leads back to itself"},
		{"more links than Linux follows", "", chain, "through more than 40 other links"},
		{"hard link to itself", "", tree{"h a a"}, "leads back to itself"},
		{"root that matches nothing", "x*", tree{"f a/x 1"}, `the root "x*" matches no directory`},
		{"root that is a file", "*", tree{"f a 1"}, "matches no directory"},
		{"root that is a link", "b", tree{"f a/x 1", "l b a"}, "matches no directory"},
		{"root that matches twice", "*", tree{"f a/x 1", "f b/x 1"}, `the root "*" matches 2 directories, "a" and "b" among them`},
		{"root that matches an empty directory too", "*", tree{"f a/x 1", "d b"}, "matches 2 directories"},
		{"root that is empty", "a", tree{"d a", "f b 1"}, "it has no file"},
		{"root that is no pattern", "[", tree{"f a/x 1"}, "is not a pattern"},
		{"root that is not clean", "../*", tree{"f a/x 1"}, "not a clean path"},
		{"root in git", "*", tree{"f .git/x 1"}, "matches no directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := packTree(t, pack.Limits{}, tt.root, tt.in)
			wantRefused(t, err, tt.why)
		})
	}
}

func TestHasDir(t *testing.T) {
	b, err := build(t, pack.Limits{}, tree{"f w/a/b/x 1", "f w/ab/y 2", "l w/c a/b", "l w/d ../out", "f out/z 3", "d w/e", "l w/n nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		"": true, "a": true, "a/b": true, "ab": true, "c": true, "d": true, "a/b/x": false, "b": false, "e": false, "n": false, "out": false, "w": false,
	} {
		if has, err := b.HasDir("w", dir); has != want || err != nil {
			t.Errorf("%q: %v, %v", dir, has, err)
		}
	}
	_, err = b.HasDir("x", "a")
	wantRefused(t, err, "matches no directory")
	errFile := b.File("../x", false, strings.NewReader(""))
	if _, err = b.HasDir("w", "a"); err == nil || err != errFile {
		t.Errorf("after a refused file: %v, was %v", err, errFile)
	}
}

// A refused package is refused for the same reason when it is packed again.
func TestRefusedAgain(t *testing.T) {
	long := tree{"f end x", "l l00 end"}
	for i := range 40 {
		long = append(long, fmt.Sprintf("l l%02d l%02d", i+1, i))
	}
	for why, in := range map[string]tree{"leads back to itself": {"l a b", "l b a"}, "through more than 40": long} {
		b, err := build(t, pack.Limits{}, in)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err := b.Pack(io.Discard, "")
			wantRefused(t, err, why)
		}
	}
}
