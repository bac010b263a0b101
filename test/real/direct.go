package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// environment returns the environment of git and the clients, without configuration of the user.
func environment(dir string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C", "CHECKPOINT_DISABLE=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"GIT_SSL_CAINFO=" + filepath.Join(dir, "ca.pem"), "SSL_CERT_FILE=" + filepath.Join(dir, "ca.pem"),
		"GIT_CONFIG_COUNT=2", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=advice.detachedHead", "GIT_CONFIG_VALUE_1=false",
	}
}

// git runs git in dir and returns its output.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, environment(gitHome), "git", args...)
}

// gitHome is the scratch directory.
var gitHome = os.TempDir()

// command runs a program and returns its output, or "" if it fails.
func command(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	out, err := output(ctx, dir, env, name, args...)
	if err != nil {
		out = ""
	}
	return out, err
}

// output runs a program and returns its output, even if it fails.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, strings.Join(strings.Fields(stderr.String()), " "))
	}
	return stdout.String(), nil
}

// checkout makes the files that a direct client gets for a ref, in dir. It uses the objects of the bare repository, so
// that an incomplete repository works.
func (r *repo) checkout(ctx context.Context, ref, dir string) error {
	if _, err := git(ctx, r.dir, "init", "--quiet", dir); err != nil {
		return err
	}
	alternates := filepath.Join(dir, ".git", "objects", "info", "alternates")
	if err := os.WriteFile(alternates, []byte(filepath.Join(r.dir, "objects")+"\n"), 0o600); err != nil {
		return err
	}
	id, err := r.commit(ctx, ref)
	if err != nil {
		return err
	}
	for _, step := range [][]string{
		{"remote", "add", "origin", r.url()},
		{"checkout", "--quiet", "--detach", id},
		{"submodule", "--quiet", "update", "--init", "--recursive"},
	} {
		if _, err := git(ctx, dir, step...); err != nil {
			return err
		}
	}
	// git exits with 0 if an object is missing, and leaves out its file.
	missing, err := git(ctx, dir, "diff-files", "--diff-filter=D", "--name-only")
	if err == nil && missing != "" {
		err = fmt.Errorf("git checkout: objects are missing in %s: %s", r.dir, strings.Join(strings.Fields(missing), " "))
	}
	return err
}

// unpack makes the files that tar unpacks from the archive of a ref, in dir.
func (r *repo) unpack(ctx context.Context, ref, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	archive := dir + ".tar"
	defer os.Remove(archive)
	if _, err := git(ctx, r.dir, "archive", "--format=tar", "--output="+archive, ref); err != nil {
		return err
	}
	_, err := command(ctx, dir, environment(gitHome), "tar", "-xf", archive)
	return err
}

// direct makes the files that a client gets for a ref without modproxy.
func (s *settings) direct(ctx context.Context, r *repo, ref, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if archives[s.form] != "" {
		return r.unpack(ctx, ref, dir)
	}
	return r.checkout(ctx, ref, dir)
}

// A file is one file of a tree, with the hash of its content.
type file struct {
	sum        [sha256.Size]byte
	executable bool
}

// readTree reads the files below dir, except those named .git. A link is read as the file or files that it names. It is
// left out if these are not in the tree. loop is the name of a link that leads back to itself.
func readTree(dir string) (files map[string]file, loop string, err error) {
	w := &walk{root: dir, files: map[string]file{}, following: map[string]bool{}}
	err = w.dir("", "")
	return w.files, w.loop, err
}

type walk struct {
	root      string
	files     map[string]file
	following map[string]bool // links, by path
	loop      string
}

// dir reads the directory at path. name is its name in the tree.
func (w *walk) dir(path, name string) error {
	entries, err := os.ReadDir(filepath.Join(w.root, path))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), ".git") {
			continue
		}
		if err := w.entry(filepath.Join(path, e.Name()), filepath.Join(name, e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) entry(path, name string, kind fs.FileMode) error {
	if kind == fs.ModeSymlink {
		to, err := w.resolve(path, 0)
		if err != nil || to == "" || w.following[path] {
			return err
		}
		w.following[path] = true
		defer delete(w.following, path)
		path = to
	}
	info, err := os.Lstat(filepath.Join(w.root, path))
	if err != nil {
		return err
	}
	if info.IsDir() {
		if path == "." {
			path = ""
		}
		return w.dir(path, name)
	}
	content, err := os.ReadFile(filepath.Join(w.root, path))
	w.files[filepath.ToSlash(name)] = file{sha256.Sum256(content), info.Mode()&0o100 != 0}
	return err
}

// resolve returns the path that the link at path names, or "" if that is not in the tree.
func (w *walk) resolve(path string, depth int) (string, error) {
	if depth > 40 {
		w.loop = path
		return "", nil
	}
	target, err := os.Readlink(filepath.Join(w.root, path))
	if err != nil || filepath.IsAbs(target) {
		return "", err
	}
	at := filepath.Dir(path)
	for part := range strings.SplitSeq(target, "/") {
		switch info, err := os.Lstat(filepath.Join(w.root, at)); {
		case err != nil:
			return "", err
		case !info.IsDir(), strings.EqualFold(part, ".git"), part == ".." && at == ".":
			return "", nil
		}
		at = filepath.Join(at, part)
		info, err := os.Lstat(filepath.Join(w.root, at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return "", nil
		case err != nil:
			return "", err
		case info.Mode().Type() == fs.ModeSymlink:
			if at, err = w.resolve(at, depth+1); err != nil || at == "" {
				return "", err
			}
		}
	}
	return at, nil
}
