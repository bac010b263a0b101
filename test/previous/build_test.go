package previous_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// module is the directory of the module.
const module = "../.."

// dir contains the sources of the previous version in "source", and the built programs.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "previous-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// programs are the paths of the two programs.
type programs struct{ previous, today string }

// built returns the programs. Without the history of the repository, it skips the test, or fails it in CI.
func built(t *testing.T) programs {
	t.Helper()
	if err := rig.DependOnSources(); err != nil {
		t.Fatal(err)
	}
	p, err := buildBoth()
	switch {
	case errors.Is(err, errNoHistory):
		rig.Missing(t, "%v", err)
	case err != nil:
		t.Fatal(err)
	}
	return p
}

var errNoHistory = errors.New("the previous version is not known")

var buildBoth = sync.OnceValues(func() (p programs, err error) {
	ctx := context.Background()
	revision, err := previousRevision(ctx)
	if err != nil {
		return p, err
	}
	source, archive := filepath.Join(dir, "source"), filepath.Join(dir, "source.tar")
	if err := os.Mkdir(source, 0o755); err != nil {
		return p, err
	}
	if _, err := git(ctx, "archive", "--output", archive, revision); err != nil {
		return p, err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", source).CombinedOutput(); err != nil {
		return p, fmt.Errorf("tar: %w\n%s", err, out)
	}
	p.previous = filepath.Join(dir, "previous")
	// With -trimpath and without C, packages that have not changed are in the build cache, as "make test" leaves it.
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", p.previous, "./cmd/modproxy")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("go build of %s: %w\n%s", revision, err, out)
	}
	p.today, err = rig.Program(ctx, dir, "-ldflags", "-s -w")
	return p, err
})

// previousRevision returns the newest tag of a version before HEAD, or the commit before HEAD, or HEAD if that is the first commit.
func previousRevision(ctx context.Context) (string, error) {
	prefix, err := git(ctx, "rev-parse", "--show-prefix")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoHistory, err)
	}
	if prefix != "" {
		return "", fmt.Errorf("%w: this directory is not the top of its git repository", errNoHistory)
	}
	parent, err := git(ctx, "rev-parse", "--verify", "--quiet", "HEAD^")
	if err != nil {
		if shallow, _ := git(ctx, "rev-parse", "--is-shallow-repository"); shallow == "true" {
			return "", fmt.Errorf("%w: the clone has one commit of several: run \"git fetch --unshallow --tags\"", errNoHistory)
		}
		return "HEAD", nil
	}
	if tag, err := git(ctx, "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", parent); err == nil {
		return tag, nil
	}
	return parent, nil
}

// git runs git in the module and returns its output. The directory may belong to another user.
func git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-c", "safe.directory=*"}, args...)...)
	cmd.Dir = module
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), err
}
