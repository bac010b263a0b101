package closure

import (
	"context"
	"path"
	"path/filepath"
	"slices"

	"github.com/modproxy/modproxy/tfconfig"
)

// Roots are configurations in directories on disk.
type Roots struct {
	Dirs     []string
	Clients  []tfconfig.Client // empty: both
	VarFiles []string          // files with values of variables
	// Environment and Given are the values of variables, see [tfconfig.Options].
	Environment, Given map[string]string
}

// readers returns the clients for which r is read.
func (r Roots) readers() []tfconfig.Client {
	if len(r.Clients) > 0 {
		return r.Clients
	}
	return []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu}
}

// Named returns a copy of each Start in all for each of r.Clients. all are modules that the operator names.
func (r Roots) Named(all ...Start) (starts []Start) {
	for _, s := range all {
		for _, s.Client = range r.readers() {
			starts = append(starts, s)
		}
	}
	return starts
}

// Starts reads the configurations and returns a Start for each call in them. File names begin with the name of the directory, as
// given in Dirs. A directory that cannot be read, in part or as a whole, adds to wrong, and Starts reads the others. The error is
// that of the context.
func (r Roots) Starts(ctx context.Context, reader *tfconfig.Reader) (starts []Start, wrong []tfconfig.Problem, err error) {
	for _, dir := range r.Dirs {
		from := filepath.ToSlash(dir)
		for _, client := range r.readers() {
			c, err := reader.ReadDirectory(ctx, dir, tfconfig.Options{Client: client, Environment: r.Environment, Given: r.Given}, r.VarFiles...)
			switch {
			case ctx.Err() != nil:
				return nil, nil, context.Cause(ctx)
			case err != nil:
				c = &tfconfig.Configuration{Problems: []tfconfig.Problem{{Pos: tfconfig.Pos{File: "."}, Text: err.Error()}}}
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
				call.File, call.From = path.Join(from, call.File), slices.Clone(call.From) // calls share From
				for i := range call.From {
					call.From[i].File = path.Join(from, call.From[i].File)
				}
				starts = append(starts, Start{Client: client, Root: dir, Call: call})
			}
		}
	}
	return starts, wrong, nil
}
