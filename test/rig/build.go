package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// The environment variables with which a process instructs the processes that it starts.
const (
	ProgramVariable = "RIG_PROGRAM" // path of the modproxy under test
	LongVariable    = "RIG_LONG"    // "1" for tests that take minutes
	RoleVariable    = "RIG_ROLE"    // role of a process that was run again
)

// Long reports whether the full form of the tests is required.
func Long() bool { return os.Getenv(LongVariable) == "1" }

// Late reports whether an operation took longer than it should. Only the long form, which has the machine for itself,
// judges times. In the short form Late returns false: tests wait and assert no times.
func Late(took, most time.Duration) bool { return Long() && took > most }

// Required reports whether a test must fail if a program or a right is missing: in CI, and in the long form.
func Required() bool { return os.Getenv("CI") == "true" || Long() }

// Missing ends a test that cannot run here. The test fails if it is required, and is otherwise skipped with the given
// reason.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if Required() {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// Program returns the path of the modproxy under test: the one in RIG_PROGRAM, or else one that it builds in dir with
// flags of "go build".
func Program(ctx context.Context, dir string, flags ...string) (string, error) {
	if program := os.Getenv(ProgramVariable); program != "" {
		return filepath.Abs(program)
	}
	program, err := filepath.Abs(filepath.Join(dir, "modproxy"))
	if err != nil {
		return "", err
	}
	return program, Build(ctx, program, nil, flags...)
}

// root returns the directory of the module.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("the working directory is not in the module")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
})

// Build builds modproxy at the path program, with flags of "go build". mutant replaces texts, by the name of their file
// in the module. Each text must occur exactly once.
func Build(ctx context.Context, program string, mutant map[string][2]string, flags ...string) error {
	module, err := root()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-o", program}, flags...)
	if len(mutant) > 0 {
		overlay, err := writeOverlay(module, program, mutant)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/modproxy")...)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// writeOverlay writes the changed files of a mutant beside program, and the overlay file for "go build".
func writeOverlay(module, program string, mutant map[string][2]string) (string, error) {
	overlay := map[string]string{}
	for name, change := range mutant {
		source := filepath.Join(module, name)
		text, err := os.ReadFile(source)
		if err != nil {
			return "", err
		}
		if bytes.Count(text, []byte(change[0])) != 1 {
			return "", fmt.Errorf("%s does not have %q exactly once: the mutant is out of date", name, change[0])
		}
		overlay[source] = program + "-" + filepath.Base(name)
		if err := os.WriteFile(overlay[source], bytes.Replace(text, []byte(change[0]), []byte(change[1]), 1), 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	return program + "-overlay.json", os.WriteFile(program+"-overlay.json", list, 0o600)
}

// DependOnSources makes the result of this run of "go test" depend on the sources of the program: a cached result is
// valid only while these files are unchanged.
var DependOnSources = sync.OnceValue(func() error {
	module, err := root()
	if err != nil {
		return err
	}
	return filepath.WalkDir(module, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "test" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if match, _ := filepath.Match("*_test.go", d.Name()); !d.IsDir() && !match {
			_, err = os.Stat(name)
		}
		return err
	})
})
