package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/closure"
)

// directoryFlags are the flags of verbs that read configurations on disk, which they do themselves, in a child process.
type directoryFlags struct{ closure.Roots }

func (d *directoryFlags) add(cmd *cobra.Command) {
	addFlag(cmd, &d.Clients, "client", "read DIR as `terraform or tofu` does (as both do)", func(s string) ([]closure.Client, error) {
		if closure.Hosts[closure.Client(s)] == "" {
			return nil, fmt.Errorf("want terraform or tofu, not %.80q", s)
		}
		return []closure.Client{closure.Client(s)}, nil
	})
	addFlag(cmd, &d.Vars, "var", "`NAME=VALUE` of a variable of DIR, for tofu, which knows it when it reads sources and versions", func(s string) (map[string]closure.Arg, error) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("want NAME=VALUE, not %.80q", s)
		}
		if d.Vars == nil {
			d.Vars = map[string]closure.Arg{}
		}
		text, err := json.Marshal(value)
		d.Vars[name] = closure.Arg{Value: text}
		return d.Vars, err
	})
	cmd.Flags().StringArrayVar(&d.VarFiles, "var-file", nil, "`file` with values of variables of DIR, for tofu; --var counts more")
}

// given reports whether a flag is given that is about directories only.
func (d *directoryFlags) given() bool { return len(d.Clients)+len(d.Vars)+len(d.VarFiles) > 0 }

// starts reads what directories call. What is wrong there may be only a part of it: the rest is read all the same.
func (d *directoryFlags) starts(ctx context.Context, dirs ...string) (starts []closure.Start, failed problems, err error) {
	d.Dirs = dirs
	starts, wrong, err := new(closure.Reader).Starts(ctx, d.Roots)
	for _, p := range wrong {
		failed = append(failed, errors.New(printable(p.String())))
	}
	return starts, failed, err
}
