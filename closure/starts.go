package closure

import (
	"context"
	"path"
	"path/filepath"
	"slices"
)

// Roots are configurations in directories on disk, as clients read them.
type Roots struct {
	Dirs     []string
	Clients  []Client // none: all
	VarFiles []string // files with values of variables
	// Environment and Given are values of variables, see [Options].
	Environment, Given map[string]string
}

// readers returns the clients that r is read for.
func (r Roots) readers() []Client {
	if len(r.Clients) > 0 {
		return r.Clients
	}
	return []Client{Terraform, OpenTofu}
}

// Named returns starts that nobody calls, for each of the clients.
func (r Roots) Named(all ...Start) (starts []Start) {
	for _, s := range all {
		for _, s.Client = range r.readers() {
			starts = append(starts, s)
		}
	}
	return starts
}

// Starts returns what the configurations call, with the names of files from where those of the directories begin. What is
// wrong may be a part of a directory, or all of it: the rest is read all the same. Its error is that of the context.
func (r *Reader) Starts(ctx context.Context, roots Roots) (starts []Start, wrong []Problem, err error) {
	for _, dir := range roots.Dirs {
		from := filepath.ToSlash(dir)
		for _, client := range roots.readers() {
			c, err := r.ReadDirectory(ctx, dir, Options{Client: client, Environment: roots.Environment, Given: roots.Given}, roots.VarFiles...)
			switch {
			case ctx.Err() != nil:
				return nil, nil, context.Cause(ctx)
			case err != nil:
				c = &Configuration{Problems: []Problem{{Pos{File: "."}, err.Error()}}}
			}
			for _, p := range c.Problems {
				if p.File = path.Join(from, p.File); !slices.Contains(wrong, p) {
					wrong = append(wrong, p)
				}
			}
			for i := range c.Providers {
				c.Providers[i].File = path.Join(from, c.Providers[i].File)
			}
			for i := range c.Locks {
				c.Locks[i].File = path.Join(from, c.Locks[i].File)
			}
			if len(c.Providers)+len(c.Locks) > 0 {
				starts = append(starts, Start{Client: client, Root: dir, Providers: c.Providers, Locks: c.Locks})
			}
			for _, call := range c.Calls {
				call.File, call.From = path.Join(from, call.File), slices.Clone(call.From) // which calls share
				for i := range call.From {
					call.From[i].File = path.Join(from, call.From[i].File)
				}
				starts = append(starts, Start{Client: client, Root: dir, Call: call})
			}
		}
	}
	return starts, wrong, nil
}
