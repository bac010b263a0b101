package git_test

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// tree writes a tree object with entries, each as git mktree reads it.
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

// Trees that are shared by trees describe in a few kilobytes more paths, and longer
// ones, than memory can hold.
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
				shared = a.tree("040000 tree "+shared+"\t"+strings.Repeat("a", 40), "040000 tree "+shared+"\t"+strings.Repeat("b", 40))
			}
			a.git("update-ref", "HEAD", a.git("commit-tree", "-m", "shared", shared))
			_, err := newFetcher(t).FetchURL(t.Context(), serve(t, backend(t, root)).URL+"/a.git/.git", files{})
			if !errors.Is(err, modproxy.ErrInvalid) || !strings.HasSuffix(err.Error(), test.says) {
				t.Errorf("error %v", err)
			}
		})
	}
}
