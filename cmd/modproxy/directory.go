package main

import (
	"context"
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
	addFlag(cmd, &d.Given, "var", "`NAME=VALUE` of a variable of DIR, on which sources and versions depend", func(s string) (map[string]string, error) {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("want NAME=VALUE, not %.80q", s)
		}
		if d.Given == nil {
			d.Given = map[string]string{}
		}
		d.Given[name] = value
		return d.Given, nil
	})
	cmd.Flags().StringArrayVar(&d.VarFiles, "var-file", nil, "`file` with values of variables of DIR; --var counts more")
}

// given reports whether a flag is given that is about directories only.
func (d *directoryFlags) given() bool { return len(d.Clients)+len(d.Given)+len(d.VarFiles) > 0 }

// starts reads what directories call. What is wrong there may be only a part of it: the rest is read all the same.
// Variables have the values that clients would know here, which those of TF_VAR_… belong to.
func (d *directoryFlags) starts(ctx context.Context, env *environment, dirs ...string) (starts []closure.Start, failed problems, err error) {
	d.Dirs, d.Environment = dirs, map[string]string{}
	for _, variable := range env.variables {
		if name, value, ok := strings.Cut(strings.TrimPrefix(variable, "TF_VAR_"), "="); ok && strings.HasPrefix(variable, "TF_VAR_") {
			d.Environment[name] = value
		}
	}
	starts, wrong, err := new(closure.Reader).Starts(ctx, d.Roots)
	for _, p := range wrong {
		failed = append(failed, errors.New(printable(p.String())))
	}
	return starts, failed, err
}
