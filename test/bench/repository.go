package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy/test/registrytest"
)

// A repository is a generated git repository. It is always the same.
type repository struct {
	name           string
	files, commits int
	seed           uint64
	calls          string // an additional file with module blocks

	versions []string // versions, oldest first
	ids      []string // their commits
	packed   int64    // bytes
}

// newRepositories returns repositories of typical sizes: most are small, some have hundreds of files and a long history.
func newRepositories() []*repository {
	sizes := []struct{ files, commits int }{
		{60, 60}, {80, 120}, {110, 90}, {140, 150}, {180, 200}, {240, 180}, {300, 250}, {400, 300},
	}
	var all []*repository
	for i, s := range sizes {
		all = append(all, &repository{
			name: fmt.Sprintf("module%d", i+1), files: s.files, commits: s.commits, seed: uint64(i + 1),
			versions: []string{"1.0.0", "1.1.0", "2.0.0"},
		})
	}
	return all
}

const archiveSuffix = ".tar.gz"

// archiveName is the path of the i-th version's archive, from the root of the repositories.
func (r *repository) archiveName(i int) string {
	return "acme/" + r.name + "-" + r.versions[i] + archiveSuffix
}

// archive writes the versions as archives, as a forge would.
func (r *repository) archive(ctx context.Context, root string) error {
	for i, id := range r.ids {
		to := filepath.Join(root, filepath.FromSlash(r.archiveName(i)))
		if _, err := git(ctx, nil, "-C", filepath.Join(root, "acme", r.name+".git"), "archive", "-o", to, id); err != nil {
			return err
		}
	}
	return nil
}

// write writes the repository as a bare one below root, packed as by a forge.
func (r *repository) write(ctx context.Context, root string) error {
	dir := filepath.Join(root, "acme", r.name+".git")
	if _, err := git(ctx, nil, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", dir); err != nil {
		return err
	}
	var stream bytes.Buffer
	tagged := r.history(&stream)
	marks := filepath.Join(root, r.name+".marks")
	if _, err := git(ctx, &stream, "-C", dir, "fast-import", "--quiet", "--export-marks="+marks); err != nil {
		return err
	}
	defer os.Remove(marks)
	if _, err := git(ctx, nil, "-C", dir, "repack", "-adfbq"); err != nil {
		return err
	}
	text, err := os.ReadFile(marks)
	if err != nil {
		return err
	}
	byMark := map[int]string{}
	for text := range strings.Lines(string(text)) {
		var mark int
		var id string
		if _, err := fmt.Sscanf(text, ":%d %s", &mark, &id); err != nil {
			return fmt.Errorf("git fast-import: mark %q: %w", text, err)
		}
		byMark[mark] = id
	}
	for _, mark := range tagged {
		r.ids = append(r.ids, byMark[mark])
	}
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	if err != nil {
		return err
	}
	for _, pack := range packs {
		if info, err := os.Stat(pack); err == nil {
			r.packed += info.Size()
		}
	}
	return nil
}

// history writes all commits in the language of git-fast-import(1), and returns the marks of the versions.
func (r *repository) history(w *bytes.Buffer) (tagged []int) {
	random := rand.New(rand.NewPCG(r.seed, 1))
	texts := map[string][]string{}
	var names []string
	for i := range r.files {
		name := fileName(i)
		names = append(names, name)
		texts[name] = text(random, 20+random.IntN(220))
	}
	for mark := 1; mark <= r.commits; mark++ {
		fmt.Fprintf(w, "commit refs/heads/main\nmark :%d\ncommitter bench <bench@example.com> %d +0000\n", mark, 1700000000+3600*mark)
		message := fmt.Sprintf("change %d\n", mark)
		fmt.Fprintf(w, "data %d\n%s", len(message), message)
		changed := names
		if mark > 1 {
			changed = nil
			for range 1 + random.IntN(12) {
				name := names[random.IntN(len(names))]
				changed = append(changed, name)
				edit(random, texts[name])
			}
		}
		for _, name := range changed {
			data := content(name, texts[name])
			fmt.Fprintf(w, "M 100644 inline %s\ndata %d\n%s\n", name, len(data), data)
		}
		if mark == 1 && r.calls != "" {
			fmt.Fprintf(w, "M 100644 inline calls.tf\ndata %d\n%s\n", len(r.calls), r.calls)
		}
		if n := len(r.versions); mark == r.commits*(len(tagged)+1)/n {
			fmt.Fprintf(w, "reset refs/tags/v%s\nfrom :%d\n\n", r.versions[len(tagged)], mark)
			tagged = append(tagged, mark)
		}
	}
	return tagged
}

// fileName is the name of the i-th file: three in the root module, the others at typical places.
func fileName(i int) string {
	if root := []string{"main.tf", "variables.tf", "README.md"}; i < len(root) {
		return root[i]
	}
	dirs := []string{"modules/part", "examples/use", "modules/other", "docs/page", "tests/case"}
	files := []string{"main.tf", "variables.tf", "outputs.tf", "README.md"}
	i -= 3
	return fmt.Sprintf("%s%d/%s", dirs[i/4%len(dirs)], i/4, files[i%4])
}

var words = strings.Fields(`aws subnet network cluster instance profile policy bucket gateway
	route table region zone private public default enabled name prefix tags count role key secret
	monitor alarm topic queue function layer domain record certificate listener target group rule`)

// text is n lines of HCL, compressible like real files.
func text(random *rand.Rand, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = sentence(random, i)
	}
	return lines
}

func sentence(random *rand.Rand, i int) string {
	word := func() string { return words[random.IntN(len(words))] }
	return fmt.Sprintf("  %s_%s_%d = \"%s-%s-%x\" # %s %s %s", word(), word(), i, word(), word(), random.Uint32N(1<<20), word(), word(), word())
}

// edit changes some lines.
func edit(random *rand.Rand, lines []string) {
	at := random.IntN(len(lines))
	for i := at; i < min(len(lines), at+1+random.IntN(160)); i++ {
		lines[i] = sentence(random, i)
	}
}

// content is a file with these lines that Terraform can read.
func content(name string, lines []string) string {
	body := strings.Join(lines, "\n")
	if strings.HasSuffix(name, ".tf") {
		return "locals {\n" + strings.ReplaceAll(body, "  ", "  "+strings.TrimSuffix(filepath.Base(name), ".tf")+"_") + "\n}\n"
	}
	return body + "\n"
}

// git runs git without the configuration of the user.
func git(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Stdin = stdin
	cmd.Env = registrytest.GitEnvironment()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return out, nil
}
