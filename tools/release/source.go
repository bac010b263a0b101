package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A source is a directory with the files of one commit.
type source struct {
	dir    string
	commit string    // hash of the commit, with "+dirty" if the directory has uncommitted changes
	time   time.Time // time of the commit, in UTC; every time in a release is this one
}

// openSource writes the source of a commit to the directory temp, and returns it. If commit is empty, it returns the checkout itself.
func openSource(commit, temp string) (s source, err error) {
	if s.dir, err = git(".", "rev-parse", "--show-toplevel"); err != nil {
		return source{}, err
	}
	checkout := s.dir
	name := commit
	if name == "" {
		name = "HEAD"
	}
	description, err := git(checkout, "log", "-1", "--format=%H %ct", name, "--")
	if err != nil {
		return source{}, err
	}
	hash, seconds, _ := strings.Cut(description, " ")
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the time of commit %s: %w", hash, err)
	}
	s.commit, s.time = hash, time.Unix(unix, 0).UTC()
	if commit == "" {
		changes, err := git(checkout, "status", "--porcelain")
		if changes != "" {
			s.commit += "+dirty"
		}
		return s, err
	}
	s.dir = temp
	if err := export(checkout, hash, temp); err != nil {
		return source{}, err
	}
	if _, err := os.Stat(filepath.Join(temp, "packaging")); err == nil {
		return s, nil
	}
	// Commits before the first package have no directory packaging: their packages get the files of the checkout.
	return s, os.CopyFS(filepath.Join(temp, "packaging"), os.DirFS(filepath.Join(checkout, "packaging")))
}

// export writes the files of a commit into the directory to.
func export(checkout, commit, to string) error {
	archive := to + ".tar"
	if _, err := git(checkout, "archive", "--format=tar", "--output="+archive, commit); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	_, err := output(exec.Command("tar", "-xf", archive, "-C", to))
	return err
}

func git(dir string, args ...string) (string, error) {
	return output(exec.Command("git", append([]string{"-C", dir}, args...)...))
}

// output runs a command and returns its standard output without the last newline. The error has the command and its standard error.
func output(cmd *exec.Cmd) (string, error) {
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(bytes.TrimSuffix(out, []byte("\n"))), nil
}
