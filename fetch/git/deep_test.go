package git_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// tree writes a tree object with entries in the form of git mktree.
func (a author) tree(entries ...string) (id string) {
	a.t.Helper()
	cmd := exec.Command("git", "mktree")
	cmd.Dir, cmd.Env = a.dir, clientEnv
	cmd.Stdin = strings.NewReader(strings.Join(entries, "\n") + "\n")
	out, err := cmd.Output()
	if err != nil {
		a.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A few kilobytes of trees that share trees can describe more and longer paths than fit into memory.
func TestSharedTrees(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		levels int
		says   string
	}{
		"many":   {24, "the paths of the tree are longer together than the 16777216 bytes that are allowed"},
		"long":   {25, "a path of more than the 1024 bytes that are allowed"},
		"longer": {30, "a path of more than the 1024 bytes that are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			a := newAuthor(t, root, "a.git")
			a.write("x", "")
			shared := a.tree("100644 blob " + a.git("hash-object", "-w", "x") + "\tx")
			for range test.levels {
				shared = a.tree("040000 tree "+shared+"\t"+strings.Repeat("a", 40),
					"040000 tree "+shared+"\t"+strings.Repeat("b", 40))
			}
			a.git("update-ref", "HEAD", a.git("commit-tree", "-m", "shared", shared))
			_, err := newFetcher(t).FetchURL(t.Context(), serve(t, backend(t, root)).URL+"/a.git/.git", files{})
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// All entries of a tree count before its directories are read. Otherwise all trees on the way down would be in memory.
func TestWideTrees(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("b", 1025)
	for name, test := range map[string]struct {
		bottom, beside []string // files, and the entries in each of 4 trees above them
		says           string
	}{
		"files": {[]string{long}, []string{"100644 blob b", "100644 blob c", "100644 blob d"},
			"more than the 10 entries that are allowed (operator: fetch.max_files)"},
		"long names": {strings.Split("abcdefghijkl", ""), []string{"100644 blob " + long},
			"a path of more than the 1024 bytes that are allowed"},
		"long directories": {strings.Split("abcdefghijkl", ""), []string{"040000 tree " + long},
			"a path of more than the 1024 bytes that are allowed"},
		"within the limits": {strings.Split("ab", ""), []string{"100644 blob b", "100644 blob c"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			a := newAuthor(t, root, "a.git")
			a.write("x", "")
			blob := a.git("hash-object", "-w", "x")
			var entries []string
			for _, name := range test.bottom {
				entries = append(entries, "100644 blob "+blob+"\t"+name)
			}
			below := a.tree(entries...)
			empty := a.tree("100644 blob " + blob + "\tx")
			for range 4 {
				entries := []string{"040000 tree " + below + "\ta"}
				for _, entry := range test.beside {
					kind, name := entry[:len("100644 blob")], entry[len("100644 blob "):]
					id := blob
					if strings.HasSuffix(kind, "tree") {
						id = empty
					}
					entries = append(entries, kind+" "+id+"\t"+name)
				}
				below = a.tree(entries...)
			}
			a.git("update-ref", "HEAD", a.git("commit-tree", "-m", "wide", below))
			f, got := newFetcher(t), files{}
			f.Limits.Entries = 10
			_, err := f.FetchURL(t.Context(), serve(t, backend(t, root)).URL+"/a.git/.git", got)
			switch {
			case test.says == "" && (err != nil || len(got) != 10):
				t.Errorf("%d files, error %v", len(got), err)
			case test.says != "" && (!errors.Is(err, modproxy.ErrInvalid) || !strings.HasSuffix(err.Error(), test.says)):
				t.Errorf("error %v", err)
			}
		})
	}
}
