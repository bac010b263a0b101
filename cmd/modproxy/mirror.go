package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/static"
)

// mirrorFlags are the flags of "modproxy mirror".
type mirrorFlags struct {
	lists, locks, groups []string
	toDir                string
	choice               admin.Choice
}

func newMirrorCommand(env *environment) *cobra.Command {
	var f mirrorFlags
	cmd := withJSON(&cobra.Command{
		Use:   "mirror ADDRESS[@CONSTRAINT]… | -f LIST | --lock FILE",
		Short: "Fetch modules before anybody asks for them",
		Long: `Fetch packages, and keep them: of each module the newest version that CONSTRAINT
selects, as a client chooses it. --newest and --all-versions fetch more of those that
it selects, and --since those that are listed since a date. What is kept is not fetched
again, so a mirror that was ended can be repeated, and goes on where it was.

ADDRESS is a module address; without its hostname, one of the first upstream.
CONSTRAINT is as in the argument "version" of a module call; a version is one, too.

-f reads ADDRESS[@CONSTRAINT] from the lines of a file, or with "-" from the standard
input: what "modproxy missing --list" has printed on the other side. Lines that begin
with # are remarks. --lock fetches what a file lists that "modproxy lock" wrote, and
nothing else. It must be what the file says.

--to-dir also writes the packages into a directory, as files that any web server can
serve to OpenTofu, and one that adds a header to Terraform, too: DIR/nginx.conf says
how, and has what clients need. What is in the directory stays there.

What a client in no group gets is fetched. --as fetches what clients in groups get.

Exit codes: 0 all is kept, 1 something is not, and why is printed, 2 the command line
is wrong.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := env.toMirror(args, f)
			if err != nil {
				return misuse{err}
			}
			return env.mirror(cmd.Context(), in, f.toDir)
		},
	}, `print JSON, one thing in a line: {"package": {"module": …, "version": …, "fetched": …, …}}, {"problem": …}, and {"done": …} in the last`)
	cmd.Flags().StringArrayVarP(&f.lists, "file", "f", nil, "`file` with an ADDRESS[@CONSTRAINT] in each line; - for the standard input")
	cmd.Flags().StringArrayVar(&f.locks, "lock", nil, "`file` that \"modproxy lock\" wrote")
	cmd.Flags().BoolVar(&f.choice.All, "all-versions", false, "every version that CONSTRAINT selects")
	addFlag(cmd, &f.choice.Newest, "newest", "the newest `N` versions that CONSTRAINT selects", parsePositive)
	addFlag(cmd, &f.choice.Since, "since", "only versions listed since this `date`, such as 2030-01-31", parseDate)
	cmd.Flags().StringVar(&f.toDir, "to-dir", "", "also write the packages into this `directory`, for a web server")
	addFlag(cmd, &f.groups, "as", groupsUsage, parseNames)
	return cmd
}

func parsePositive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of at least 1, not %.80q", s)
	}
	return n, nil
}

// toMirror reads what the command line wants.
func (env *environment) toMirror(args []string, f mirrorFlags) (in admin.Mirror, err error) {
	in = admin.Mirror{Choice: f.choice, Groups: f.groups}
	switch {
	case len(args)+len(f.lists)+len(f.locks) == 0:
		return in, errors.New("want the addresses of modules, -f or --lock")
	case f.choice.All && (f.choice.Newest > 0 || !f.choice.Since.IsZero()):
		return in, errors.New("--all-versions goes without --newest and --since")
	}
	for _, arg := range args {
		w, err := env.wanted(arg)
		if err != nil {
			return in, err
		}
		in.Wanted = append(in.Wanted, w)
	}
	for _, name := range f.lists {
		wanted, err := env.readList(name)
		if err != nil {
			return in, err
		}
		in.Wanted = append(in.Wanted, wanted...)
	}
	for _, name := range f.locks {
		if in.Locked, err = readLock(name, in.Locked); err != nil {
			return in, err
		}
	}
	return in, nil
}

// readLock returns all with what a file lists that "modproxy lock" wrote.
func readLock(name string, all []admin.Locked) ([]admin.Locked, error) {
	text, err := durable.ReadRegular(name, lock.MaxSize)
	if err != nil {
		return all, err
	}
	entries, err := lock.Parse(text)
	if err != nil {
		return all, fmt.Errorf("%s: %w", name, err)
	}
	for _, e := range entries {
		all = append(all, admin.Locked{At: name, Name: admin.NameOf(e.ModuleVersion), Sum: e.Sum, Subdir: e.Subdir})
	}
	return all, nil
}

// maxList is how large a list may be, in bytes.
const maxList = 16 << 20

// readList reads a file with an ADDRESS[@CONSTRAINT] in each line.
func (env *environment) readList(name string) (all []admin.Wanted, err error) {
	var text []byte
	if name == "-" {
		text, err = io.ReadAll(io.LimitReader(env.stdin, maxList+1))
		if err == nil && len(text) > maxList {
			err = fmt.Errorf("standard input: more than %d bytes", maxList)
		}
	} else {
		text, err = durable.ReadRegular(name, maxList)
	}
	if err != nil {
		return nil, err
	}
	for i, s := range strings.Split(string(text), "\n") {
		if s = strings.TrimSpace(s); s == "" || s[0] == '#' {
			continue
		}
		at := fmt.Sprintf("%s:%d", name, i+1)
		w, err := env.wanted(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		w.At = at
		all = append(all, w)
	}
	return all, nil
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

// mirror prints what becomes of what is wanted, and writes it into a site in the directory dir unless that is empty.
func (env *environment) mirror(ctx context.Context, in admin.Mirror, dir string) (err error) {
	var failed problems
	var site *siteWriter
	if dir != "" {
		to, err := static.Open(dir)
		if err != nil {
			return err
		}
		site, in.Content, in.Have = &siteWriter{site: to}, true, to.Has()
	}
	progress := newProgress(env.stderr)
	defer progress.clear()
	done, err := ask(ctx, env, admin.MirrorFetch, in, func(line admin.MirrorLine) error {
		if site != nil {
			site.take(line)
		}
		switch {
		case line.Data != nil:
			return nil
		case line.Progress != nil:
			progress.show(mirrorText(*line.Progress))
			return nil
		case line.Problem != nil:
			failed = append(failed, errors.New(strings.TrimPrefix(line.Problem.At+": "+line.Problem.Error, ": ")))
		}
		progress.clear()
		if line.Problem != nil && !env.json() {
			return nil
		}
		if line.Package != nil {
			line.Package.Data = false // nothing follows for the reader of this output
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
	if site != nil && err == nil {
		err = site.finish(env, dir)
	}
	if all, ok := errors.AsType[problems](err); ok || err == nil {
		if failed = append(failed, all...); len(failed) > 0 {
			return failed
		}
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
