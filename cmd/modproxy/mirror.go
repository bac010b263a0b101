package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
)

func newMirrorCommand(env *environment) *cobra.Command {
	var in admin.Mirror
	cmd := withJSON(&cobra.Command{
		Use:   "mirror ADDRESS[@CONSTRAINT]…",
		Short: "Fetch modules before anybody asks for them",
		Long: `Fetch packages, and keep them: of each module the newest version that CONSTRAINT
selects, as a client chooses it. What is kept is not fetched again, so a mirror that
was ended can be repeated, and goes on where it was.

ADDRESS is a module address; without its hostname, one of the first upstream.
CONSTRAINT is as in the argument "version" of a module call; a version is one, too.

What a client in no group gets is fetched. --as fetches what clients in groups get.

Exit codes: 0 all is kept, 1 something is not, and why is printed, 2 the command line
is wrong.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return misuse{errors.New("want the addresses of modules")}
			}
			for _, arg := range args {
				w, err := env.wanted(arg)
				if err != nil {
					return misuse{err}
				}
				in.Wanted = append(in.Wanted, w)
			}
			return env.mirror(cmd.Context(), in)
		},
	}, `print JSON, one thing in a line: {"package": {"module": …, "version": …, "fetched": …, …}}, {"problem": …}, and {"done": …} in the last`)
	addFlag(cmd, &in.Groups, "as", groupsUsage, parseNames)
	return cmd
}

// wanted reads ADDRESS[@CONSTRAINT].
func (env *environment) wanted(arg string) (w admin.Wanted, err error) {
	address, constraint, given := strings.Cut(arg, "@")
	v, err := env.chosen(address)
	if err != nil {
		return w, err
	}
	if given {
		_, err = modproxy.ParseConstraint(constraint)
	}
	return admin.Wanted{Module: v.Module.String(), Versions: constraint}, err
}

// mirror prints what becomes of what is wanted.
func (env *environment) mirror(ctx context.Context, in admin.Mirror) error {
	progress := newProgress(env.stderr)
	defer progress.clear()
	var failed problems
	done, err := ask(ctx, env, admin.MirrorFetch, in, func(line admin.MirrorLine) error {
		switch {
		case line.Progress != nil:
			progress.show(mirrorText(*line.Progress))
			return nil
		case line.Problem != nil:
			failed = append(failed, errors.New(line.Problem.Error))
		}
		progress.clear()
		if line.Problem != nil && !env.json() {
			return nil
		}
		return env.print(line, "", mirroredText(line.Package))
	})
	progress.clear()
	if err != nil {
		return err
	}
	if env.json() {
		err = env.print(map[string]admin.Mirrored{"done": done}, "", "")
	} else {
		_, err = fmt.Fprintln(env.stderr, mirrorText(done))
	}
	if err == nil && len(failed) > 0 {
		err = failed
	}
	return err
}

// mirroredText is a package that is kept, in one line.
func mirroredText(p *admin.MirroredPackage) string {
	if p == nil {
		return ""
	}
	what := "kept"
	if p.Fetched {
		what = "fetched, " + sizeText(p.Size)
	}
	return fmt.Sprintf("%s %s: %s\n", p.Module, p.Version, what)
}

// mirrorText is how far a mirror has come, in one line.
func mirrorText(m admin.Mirrored) string {
	s := fmt.Sprintf("%s asked for versions; %s fetched, %s; %d kept before",
		count(m.Asked, "module"), count(m.Fetched, "package"), sizeText(m.Bytes), m.Kept)
	if m.Problems > 0 {
		s += "; " + count(m.Problems, "problem")
	}
	if done := m.Asked + m.Fetched + m.Kept + m.Problems; m.Left > 0 && done > 0 {
		left := time.Duration(m.Seconds / float64(done) * float64(m.Left) * float64(time.Second))
		s += fmt.Sprintf("; about %v left", max(left.Round(time.Second), time.Second))
	}
	return s
}
