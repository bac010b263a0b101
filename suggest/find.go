package suggest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// Find returns the calls in the configurations in dir and the directories below it. It does not read hidden directories, such as
// .terraform, and does not follow links to directories. File names begin with dir. A file or directory that cannot be read adds to
// problems, and Find reads the others.
//
// Errors: that of the context, that of the file system if dir cannot be read, [modproxy.ErrInvalid] beyond a limit.
func Find(ctx context.Context, r *tfconfig.Reader, dir string) (calls *Calls, problems []tfconfig.Problem, err error) {
	f := &finder{reader: r, calls: &Calls{}}
	entries, err := os.ReadDir(dir)
	if err == nil {
		err = f.visit(ctx, dir, entries)
	}
	return f.calls, f.problems, err
}

type finder struct {
	reader   *tfconfig.Reader
	calls    *Calls
	problems []tfconfig.Problem
}

// visit reads a directory and those below it.
func (f *finder) visit(ctx context.Context, dir string, entries []fs.DirEntry) error {
	c, err := f.reader.ReadSources(ctx, dir)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		c = &tfconfig.Configuration{Problems: []tfconfig.Problem{{Pos: tfconfig.Pos{File: "."}, Text: err.Error()}}}
	}
	for _, p := range c.Problems {
		if err := f.problem(dir, p); err != nil {
			return err
		}
	}
	for _, s := range c.Sources {
		s.File = path.Join(filepath.ToSlash(dir), s.File)
		if err := f.calls.Add(s); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		below := filepath.Join(dir, e.Name())
		entries, err := os.ReadDir(below)
		if err == nil {
			err = f.visit(ctx, below, entries)
		} else {
			err = f.problem(below, tfconfig.Problem{Pos: tfconfig.Pos{File: "."}, Text: err.Error()})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// problem adds a problem in a directory.
func (f *finder) problem(dir string, p tfconfig.Problem) error {
	p.File = path.Join(filepath.ToSlash(dir), p.File)
	if f.problems = append(f.problems, p); len(f.problems) > maxCalls {
		return fmt.Errorf("%w: %s: more than %d problems", modproxy.ErrInvalid, p.Place(), maxCalls)
	}
	return nil
}
