package closure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// ReadDirectory reads a directory on disk that is the root module of a client, and those that it calls by local sources,
// wherever they are. Files are told from dir. Of o, Dir and Tests do not count: the tests of dir are read, and the files with
// values of variables that OpenTofu reads by itself. Those of varFiles count more, and o.Vars most.
//
// Errors: those of [Reader.Read], and of the file system. What is wrong with a directory that is called is a [Problem].
func (r *Reader) ReadDirectory(ctx context.Context, dir string, o Options, varFiles ...string) (*Configuration, error) {
	d := directory{r, dir, o.Client, varFiles, &Configuration{}, map[string][]way{}, 0}
	if err := d.read(ctx, ".", o.Vars, nil, nil); err != nil {
		return nil, err
	}
	return d.out, nil
}

// directory is a directory on disk that is being read, with those that it calls.
type directory struct {
	*Reader
	root     string
	client   Client
	varFiles []string
	out      *Configuration
	ways     map[string][]way // by slash path from root
	calls    int
}

// read reads the directory at a slash path from root, unless that was done. It is called with args, by the last of stack.
func (d *directory) read(ctx context.Context, at string, args map[string]Arg, from []Pos, stack []string) error {
	known := d.ways[at]
	switch {
	case slices.ContainsFunc(known, func(w way) bool { return w.fits(args) }):
		return nil
	case len(known) == maxWays:
		return fmt.Errorf("it is called with other arguments in more than %d ways", maxWays)
	}
	tree, isRoot := Directory(filepath.Join(d.root, filepath.FromSlash(at))), len(stack) == 0
	if isRoot {
		tree = rootDirectory(d.root, d.varFiles)
	}
	c, err := d.Read(ctx, tree, Options{Client: d.client, Tests: isRoot, Vars: args})
	if err != nil {
		return err
	}
	changing := slices.Clone(c.Variables) // and those that may change what is called in turn
	for _, call := range c.Calls {
		for _, arg := range call.Args {
			changing = append(changing, arg.Of...)
		}
	}
	d.ways[at] = append(known, way{variables: changing, args: args})
	placed := func(p Pos) Pos {
		var i int
		if n, _ := fmt.Sscanf(p.File, given+"%d/", &i); n == 1 && isRoot && i < len(d.varFiles) {
			return Pos{filepath.ToSlash(d.varFiles[i]), p.Line}
		}
		return Pos{path.Join(at, p.File), p.Line}
	}
	if isRoot {
		d.out.Variables = c.Variables
	}
	if len(known) == 0 {
		for _, r := range c.Providers {
			r.Pos = placed(r.Pos)
			d.out.Providers = append(d.out.Providers, r)
		}
		for _, p := range c.Problems {
			d.out.Problems = append(d.out.Problems, Problem{placed(p.Pos), p.Text})
		}
	}
	stack = append(slices.Clip(stack), at)
	for _, call := range c.Calls {
		call.Pos, call.From = placed(call.Pos), from
		if d.calls++; d.calls > maxCalls {
			return invalid("%s: more than the %d calls that are followed", call.Place(), maxCalls)
		}
		target, local := Local(at, call.Source)
		if !local || call.Dynamic != "" {
			d.out.Calls = append(d.out.Calls, call)
			continue
		}
		err := d.follow(ctx, target, call, stack)
		switch {
		case ctx.Err() != nil, d.calls > maxCalls:
			return err
		case err != nil:
			d.out.Problems = append(d.out.Problems, Problem{call.Pos, fmt.Sprintf("module %.80q: %v", call.Name, err)})
		}
	}
	return nil
}

// follow reads a directory that is called.
func (d *directory) follow(ctx context.Context, target string, call Call, stack []string) error {
	switch {
	case slices.Contains(stack, target):
		return errors.New("it calls itself")
	case len(stack) > maxDepth:
		return fmt.Errorf("more than %d directories call each other", maxDepth)
	}
	entries, err := os.ReadDir(filepath.Join(d.root, filepath.FromSlash(target)))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %.200q", target)
	case err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return isConfiguration(e.Name()) }):
		return nil // it calls nothing
	}
	err = d.read(ctx, target, call.Args, append(slices.Clip(call.From), call.Pos), stack)
	if err != nil && d.calls <= maxCalls {
		err = fmt.Errorf("%.200q: %w", target, err)
	}
	return err
}
