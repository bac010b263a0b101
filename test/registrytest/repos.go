package registrytest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// repos builds the git repositories of a fixture under dir when they are first needed, one at a time. A submodule needs
// the commit of another repository.
type repos struct {
	dir     string
	content map[string]map[string][]file
	fill    func([]byte) ([]byte, error)
	commits map[string]map[string]string // repository → revision → commit id
}

// commit returns the commit id of REPOSITORY@REVISION.
func (r *repos) commit(name string) (string, error) {
	repo, revision, _ := strings.Cut(name, "@")
	if r.commits[repo] == nil {
		if err := r.build(repo); err != nil {
			return "", err
		}
	}
	id := r.commits[repo][revision]
	if id == "" {
		return "", fmt.Errorf("fixture: no revision %q in repository %s", revision, repo)
	}
	return id, nil
}

// isTag reports whether a revision is a tag, and not a branch.
func isTag(revision string) bool {
	_, err := modproxy.ParseVersion(revision)
	return err == nil
}

// inOrder sorts revisions: tags by version, then main, then the other branches.
func inOrder(a, b string) int {
	rank := func(revision string) int {
		switch {
		case isTag(revision):
			return 0
		case revision == "main":
			return 1
		}
		return 2
	}
	if c := cmp.Compare(rank(a), rank(b)); c != 0 || !isTag(a) {
		return cmp.Or(c, strings.Compare(a, b))
	}
	v, _ := modproxy.ParseVersion(a)
	w, _ := modproxy.ParseVersion(b)
	return cmp.Or(v.Compare(w), strings.Compare(a, b))
}

// build writes one repository. Its tags and main are consecutive commits on main, and every other branch forks off the
// tip of main.
func (r *repos) build(repo string) error {
	revisions := r.content[repo]
	if revisions == nil {
		return fmt.Errorf("fixture: no repository %q", repo)
	}
	r.commits[repo] = map[string]string{}
	names := slices.SortedFunc(maps.Keys(revisions), inOrder)
	var stream bytes.Buffer
	for i, revision := range names {
		branch := "main"
		if !isTag(revision) {
			branch = revision
		}
		forks := branch != "main" && (isTag(names[0]) || names[0] == "main")
		if err := r.writeCommit(&stream, i+1, branch, forks, revision, revisions[revision]); err != nil {
			return err
		}
	}
	dir := filepath.Join(r.dir, filepath.FromSlash(repo))
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if _, err := git(nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", dir); err != nil {
		return err
	}
	marks := filepath.Join(dir, "marks")
	if _, err := git(&stream, "-C", dir, "fast-import", "--quiet", "--export-marks="+marks); err != nil {
		return err
	}
	ids, err := os.ReadFile(marks)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(ids)) {
		var mark int
		var id string
		if _, err := fmt.Sscanf(line, ":%d %s", &mark, &id); err != nil {
			return fmt.Errorf("git fast-import: mark %q: %w", line, err)
		}
		r.commits[repo][names[mark-1]] = id
	}
	return nil
}

// move moves a tag of a repository to the commit of another revision.
func (r *repos) move(repo, tag, revision string) error {
	id, err := r.commit(repo + "@" + revision)
	if err != nil {
		return err
	}
	_, err = git(nil, "-C", filepath.Join(r.dir, filepath.FromSlash(repo)), "update-ref", "refs/tags/"+tag, id)
	return err
}

// annotate makes an annotated tag of the commit of a revision.
func (r *repos) annotate(repo, tag, revision string) error {
	id, err := r.commit(repo + "@" + revision)
	if err != nil {
		return err
	}
	_, err = git(nil, "-C", filepath.Join(r.dir, filepath.FromSlash(repo)), "-c", "user.name=registrytest", "-c", "user.email=registrytest@example.com",
		"tag", "--force", "--annotate", "--message", tag, tag, id)
	return err
}

// delete removes a tag of repo.
func (r *repos) delete(repo, tag string) error {
	_, err := git(nil, "-C", filepath.Join(r.dir, filepath.FromSlash(repo)), "update-ref", "-d", "refs/tags/"+tag)
	return err
}

// writeCommit writes one commit in the format of git-fast-import(1). The tree contains files and nothing else.
func (r *repos) writeCommit(w *bytes.Buffer, mark int, branch string, forks bool, revision string, files []file) error {
	const who = "registrytest <registrytest@example.com>"
	fmt.Fprintf(w, "commit refs/heads/%s\nmark :%d\ncommitter %s %d +0000\n", branch, mark, who, modified.Unix()+int64(mark))
	fmt.Fprintf(w, "data %d\n%s\n", len(revision), revision)
	if forks {
		fmt.Fprintf(w, "from refs/heads/main\n")
	}
	fmt.Fprintf(w, "deleteall\n")
	for _, f := range files {
		mode, data := "100644", f.data
		switch {
		case f.commit != "":
			id, err := r.commit(f.commit)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "M 160000 %s %s\n", id, f.name)
			continue
		case f.link != "":
			mode, data = "120000", []byte(f.link)
		case f.exec:
			mode = "100755"
		}
		data, err := r.fill(data)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", mode, f.name, len(data), data)
	}
	if isTag(revision) {
		fmt.Fprintf(w, "reset refs/tags/%s\nfrom :%d\n\n", revision, mark)
	}
	return nil
}

// git runs git without configuration of the user.
func git(stdin *bytes.Buffer, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Env = GitEnvironment()
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return out, nil
}

// GitEnvironment returns an environment in which git ignores the configuration of the user.
func GitEnvironment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"LC_ALL=C",
	}
}
