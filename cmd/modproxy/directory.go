package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/closure"
)

// directoryFlags are the flags of verbs that read configurations on disk, which they do themselves, in a child process.
type directoryFlags struct {
	clients  []closure.Client
	vars     map[string]closure.Arg
	varFiles []string
}

func (d *directoryFlags) add(cmd *cobra.Command) {
	addFlag(cmd, &d.clients, "client", "read DIR as `terraform or tofu` does (as both do)", func(s string) ([]closure.Client, error) {
		if closure.Hosts[closure.Client(s)] == "" {
			return nil, fmt.Errorf("want terraform or tofu, not %.80q", s)
		}
		return []closure.Client{closure.Client(s)}, nil
	})
	addFlag(cmd, &d.vars, "var", "`NAME=VALUE` of a variable of DIR, for tofu, which knows it when it reads sources and versions", func(s string) (map[string]closure.Arg, error) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("want NAME=VALUE, not %.80q", s)
		}
		if d.vars == nil {
			d.vars = map[string]closure.Arg{}
		}
		text, err := json.Marshal(value)
		d.vars[name] = closure.Arg{Value: text}
		return d.vars, err
	})
	addFlag(cmd, &d.varFiles, "var-file", "`file` with values of variables of DIR, for tofu; --var counts more", func(s string) ([]string, error) {
		return append(d.varFiles, s), nil
	})
}

// given reports whether a flag is given that is about directories only.
func (d *directoryFlags) given() bool { return len(d.clients)+len(d.vars)+len(d.varFiles) > 0 }

// readers returns the clients that directories are read for.
func (d *directoryFlags) readers() []closure.Client {
	if len(d.clients) > 0 {
		return d.clients
	}
	return []closure.Client{closure.Terraform, closure.OpenTofu}
}

// starts reads what directories call, with the names of files from the working directory. What is wrong there may be only
// a part of it: the rest is read all the same.
func (d *directoryFlags) starts(ctx context.Context, dirs ...string) (starts []closure.Start, wrong problems, err error) {
	var reader closure.Reader
	told := map[string]bool{}
	for _, dir := range dirs {
		from := filepath.ToSlash(dir)
		for _, client := range d.readers() {
			c, err := reader.ReadDirectory(ctx, dir, closure.Options{Client: client, Vars: d.vars}, d.varFiles...)
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", dir, err)
			}
			for _, p := range c.Problems {
				p.File = path.Join(from, p.File)
				if text := printable(p.String()); !told[text] {
					told[text] = true
					wrong = append(wrong, errors.New(text))
				}
			}
			for _, call := range c.Calls {
				call.File, call.From = path.Join(from, call.File), slices.Clone(call.From) // which calls share
				for i := range call.From {
					call.From[i].File = path.Join(from, call.From[i].File)
				}
				starts = append(starts, closure.Start{Client: client, Call: call})
			}
		}
	}
	return starts, wrong, nil
}
