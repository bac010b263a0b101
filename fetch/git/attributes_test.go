package git_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/test/rig"
)

// sums is a Tree that stores only hashes.
type sums map[string]string

func (s sums) File(name string, executable bool, r io.Reader) error {
	h := sha256.New()
	n, err := io.Copy(h, r)
	s[name] = fmt.Sprintf("%d bytes %x %t", n, h.Sum(nil), executable)
	return err
}

func (s sums) Link(name, target string) error { s[name] = target; return nil }

// lines adds files of n bytes to the work tree, unconverted. Each conversion changes each line. The lines are long,
// because the time of git depends on their number.
func (a author) lines(n int, names ...string) {
	a.t.Helper()
	line := "$Id$ \u00e9 " + strings.Repeat("x", 4087) + "\n"
	a.write("content", strings.Repeat(line, n/len(line)+1)[:n])
	id := a.git("hash-object", "-w", "--no-filters", "content")
	for _, name := range names {
		a.git("update-index", "--add", "--cacheinfo", "100644,"+id+","+name)
	}
}

// Large files are converted like small ones.
func TestLargeFilesAreThoseOfAClone(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write(".gitattributes", strings.Join([]string{
		"*.crlf eol=crlf", "*.auto text=auto eol=crlf", "*.id ident", "*.u16 working-tree-encoding=UTF-16LE",
		"*.crlf.bin -text", "*.old -crlf eol=crlf", ""}, "\n"))
	a.write("deep/.gitattributes", "* eol=crlf\n")
	a.git("add", "-A")
	const large = 32<<20 + 4096
	a.lines(large, "plain", "dos.crlf", "wide.u16")
	if rig.Long() {
		a.lines(large, "dos.auto", "an.id", "not.crlf.bin", "not.old", "deep/-a *[!x]\\?\"\tb\n")
	}
	a.lines(4096, "small.crlf", "small.auto", "small.id", "small.old", "deep/-small *[!x]\\?\"\tb\n")
	a.git("commit", "-q", "-m", "large")
	url := serve(t, backend(t, root)).URL + "/a.git/.git"
	want := sums{}
	readTree(t, clone(t, url, ""), want)
	bothWays(t, "", func(t *testing.T, f *git.Getter) {
		got := sums{}
		if _, err := f.FetchURL(t.Context(), url, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a clone (-) is not what was fetched (+):\n%s", diff)
		}
		if left, _ := filepath.Glob(f.Dir + "/*"); len(left) > 0 {
			t.Errorf("%s left behind", left)
		}
	})
}

// Another encoding can make a file many times as large.
func TestConversionIsBounded(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write(".gitattributes", "wide working-tree-encoding=UTF-32LE\n")
	a.git("add", "-A")
	a.lines(80<<20, "wide")
	a.git("commit", "-q", "-m", "wide")
	_, err := newFetcher(t).FetchURL(t.Context(), serve(t, backend(t, root)).URL+"/a.git/.git", sums{})
	if err == nil || !strings.Contains(err.Error(), "over limit 268435456") {
		t.Errorf("error %v", err)
	}
}

// A file that is larger than git's memory limit is fetched if it is not converted.
func TestFileLargerThanMemory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("zeros", "")
	if err := os.Truncate(filepath.Join(a.dir, "zeros"), 257<<20); err != nil {
		t.Fatal(err)
	}
	a.commit("zeros")
	url := serve(t, backend(t, root)).URL + "/a.git/.git"
	for range 2 {
		got := sums{}
		_, err := newFetcher(t).FetchURL(t.Context(), url, got)
		if err != nil || !strings.HasPrefix(got["zeros"], "269484032 bytes ") {
			t.Errorf("%q, error %v", got, err)
		}
		a.write(".gitattributes", "*.tf eol=crlf\n* text=auto\n")
		a.commit("attributes")
	}
}
