package tfconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// ReadDirectory reads a directory on disk as the root module of a client, and the directories that it calls by local sources, also
// outside dir. Files in the result are relative to dir. ReadDirectory ignores o.Dir and o.Tests: it reads the tests of dir, and the
// files with values of variables that clients read automatically. varFiles take precedence over those, and o.Given over both.
//
// Errors: those of [Reader.Read], and of the file system. If a called directory cannot be read, that is a [Problem].
func (r *Reader) ReadDirectory(ctx context.Context, dir string, o Options, varFiles ...string) (*Configuration, error) {
	o.Dir, o.Tests = ".", true
	dirs, opened := []string{"."}, map[string]error{}
	good := 1 // the first of dirs that were read
	for {     // until a reading finds no new directory
		c, err := r.Read(ctx, onDisk(dir, dirs, varFiles), o)
		if errors.Is(err, modproxy.ErrInvalid) {
			all := len(dirs)
			dirs = append(dirs[:good:good], slices.DeleteFunc(slices.Clone(dirs[good:]), func(target string) bool {
				alone := Options{Client: o.Client, Dir: target, Submodules: true} // in which a directory may be empty
				if _, err := r.Read(ctx, onDisk(dir, []string{target}, nil), alone); errors.Is(err, modproxy.ErrInvalid) {
					opened[target] = fmt.Errorf("%.200q: %w", target, err)
				}
				return opened[target] != nil
			})...)
			if len(dirs) < all {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		good = len(dirs)
		for i, p := range c.Problems {
			var file int
			if n, _ := fmt.Sscanf(p.File, given+"%d/", &file); n == 1 && file < len(varFiles) {
				c.Problems[i].File = filepath.ToSlash(varFiles[file])
			}
		}
		read, all := len(dirs), c.Calls
		c.Calls = nil
		for _, call := range all {
			from := path.Dir(call.File)
			if isTest(call.File) {
				from = "."
			}
			target, local := ParseLocalSource(from, call.Source)
			if !local || call.Dynamic != "" {
				c.Calls = append(c.Calls, call)
				continue
			}
			if of, loops := loop(dir, target, call); loops {
				text := fmt.Sprintf("module %.80q calls itself: %.200q is a link to %.200q", call.Name, target, of)
				c.Problems = append(c.Problems, Problem{call.Pos, text})
				continue
			}
			err, known := opened[target]
			if !known {
				err = canOpen(dir, target)
				opened[target] = err
				if err == nil {
					dirs = append(dirs, target)
				}
			}
			if err != nil {
				c.Problems = append(c.Problems, Problem{call.Pos, fmt.Sprintf("module %.80q: %v", call.Name, err)})
			}
		}
		if len(dirs) == read {
			return c, nil
		}
	}
}

// ReadSources reads the sources of all module calls in the files of a directory on disk, for both clients. It follows no calls. See
// Options.Sources and Options.CallsOnly.
//
// Errors: those of [Reader.Read], and of the file system.
func (r *Reader) ReadSources(ctx context.Context, dir string) (*Configuration, error) {
	files := Tree{each: func(f func(string, int64, io.Reader) error) error { return sendFiles(dir, ".", isModule, f) }}
	return r.Read(ctx, files, Options{Sources: true, CallsOnly: true})
}

// onDisk returns the tree of directories on disk, by slash path from root. The first directory is the root module, with tests and
// files with values of its variables.
func onDisk(root string, dirs, varFiles []string) Tree {
	return Tree{root: true, each: func(f func(string, int64, io.Reader) error) error {
		for i, name := range varFiles {
			if err := sendFile(name, fmt.Sprintf(given+"%06d/%s", i, filepath.Base(name)), f); err != nil {
				return err
			}
		}
		isRoot := func(name string) bool { return isConfiguration(name) || isRoots(name) }
		if err := sendFiles(root, dirs[0], isRoot, f); err != nil {
			return err
		}
		if err := sendFiles(root, path.Join(dirs[0], "tests"), isTest, f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, dir := range dirs[1:] {
			if err := sendFiles(root, dir, isModule, f); err != nil {
				return err
			}
		}
		return nil
	}}
}

func isModule(name string) bool { return ending(name, modulesEnd) >= 0 }

// loop returns the directory that leads to a call and, through links, is the target of the call; and whether there is one.
func loop(root, target string, call Call) (string, bool) {
	is, err := os.Stat(filepath.Join(root, filepath.FromSlash(target)))
	if err != nil {
		return "", false
	}
	for _, at := range append(slices.Clip(call.From), call.Pos) {
		dir := path.Dir(at.File)
		above := dir == "." && !strings.HasPrefix(target, "..") || strings.HasPrefix(target, dir+"/")
		if of, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir))); err == nil && above && os.SameFile(is, of) {
			return dir, true
		}
	}
	return "", false
}

// canOpen returns the reason why a called directory cannot be read, or nil.
func canOpen(root, dir string) error {
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir))); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no directory %.200q", dir)
	}
	if err := sendFiles(root, dir, isModule, func(string, int64, io.Reader) error { return nil }); err != nil {
		return fmt.Errorf("%.200q: %w", dir, err)
	}
	return nil
}

// sendFiles calls send for each file of a directory whose name is wanted.
func sendFiles(root, dir string, wanted func(name string) bool, send func(string, int64, io.Reader) error) error {
	entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir)))
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if entry.IsDir() || !wanted(name) {
			continue
		}
		if err := sendFile(filepath.Join(root, filepath.FromSlash(name)), name, send); err != nil {
			return err
		}
	}
	return err
}

func sendFile(at, name string, send func(string, int64, io.Reader) error) error {
	file, err := durable.OpenRegular(at, os.O_RDONLY) // follows links, as clients do
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return send(name, info.Size(), file)
}
