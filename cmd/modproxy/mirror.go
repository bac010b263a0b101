package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/lock"
)

// mirrorFlags are the flags of "modproxy mirror".
type mirrorFlags struct {
	directoryFlags
	lists, locks, groups []string
	check, strict        bool
	toDir                string
	choice               admin.Choice
}

func newMirrorCommand(env *environment) *cobra.Command {
	var f mirrorFlags
	cmd := withJSON(&cobra.Command{
		Use:   "mirror DIR… | ADDRESS[@CONSTRAINT]… | -f LIST | --lock FILE",
		Short: "Fetch all that a configuration needs before anybody asks for it",
		Long: `Fetch packages, and keep them: those that the configuration in DIR calls, those that
these call, and so on, each of the version that a client chooses. What is kept is not
fetched again, so a mirror that was ended can be repeated, and goes on where it was.

ADDRESS is a module address; without its hostname, one of the first upstream.
CONSTRAINT is as in the argument "version" of a module call; a version is one, too.
-f reads ADDRESS[@CONSTRAINT] from the lines of a file, or with "-" from the standard
input: what "modproxy missing --list" has printed on the other side. Lines that begin
with # are remarks. --lock fetches what a file lists that "modproxy lock" wrote, and
nothing else. It must be what the file says.

--newest and --all-versions fetch more of the versions that a constraint in DIR, or
CONSTRAINT, selects, and --since those that are listed since a date.

What a configuration calls past modproxy, such as git::https://…, is named with its
file and line, and with --strict is an error. --check fetches nothing. It prints what
is not kept, as lines for -f.

--to-dir also writes the packages into a directory, as files that any web server can
serve to OpenTofu, and one that adds a header to Terraform, too: DIR/nginx.conf says
how, and has what clients need. What is in the directory stays there.

What a client in no group gets is fetched. --as fetches what clients in groups get.

Exit codes: 0 all is kept, 1 something is not, and why is printed, 2 the command line
is wrong.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, failed, err := env.toMirror(cmd.Context(), args, f)
			if err != nil {
				return err
			}
			return env.mirror(cmd.Context(), in, f, failed)
		},
	}, `print JSON, one thing in a line: {"package": {"module": …, …}}, {"bypass": {"source": …, …}}, {"problem": …}, and {"done": …} in the last`)
	f.add(cmd)
	cmd.Flags().StringArrayVarP(&f.lists, "file", "f", nil, "`file` with an ADDRESS[@CONSTRAINT] in each line; - for the standard input")
	cmd.Flags().StringArrayVar(&f.locks, "lock", nil, "`file` that \"modproxy lock\" wrote")
	cmd.Flags().BoolVar(&f.check, "check", false, "fetch nothing, and print what is not kept")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "what is called past modproxy is an error")
	cmd.Flags().BoolVar(&f.choice.All, "all-versions", false, "every version that a constraint selects")
	addFlag(cmd, &f.choice.Newest, "newest", "the newest `N` versions that a constraint selects", parsePositive)
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

// toMirror reads what the command line wants. What is wrong with a configuration may be only a part of it.
func (env *environment) toMirror(ctx context.Context, args []string, f mirrorFlags) (in admin.Mirror, wrong problems, err error) {
	in = admin.Mirror{Choice: f.choice, Groups: f.groups}
	switch {
	case len(args)+len(f.lists)+len(f.locks) == 0:
		err = errors.New("want directories, the addresses of modules, -f or --lock")
	case f.choice.All && (f.choice.Newest > 0 || !f.choice.Since.IsZero()):
		err = errors.New("--all-versions goes without --newest and --since")
	case f.check && f.toDir != "":
		err = errors.New("--check fetches nothing, and --to-dir does")
	}
	if err != nil {
		return in, nil, misuse{err}
	}
	var dirs []string
	for _, arg := range args {
		isDir, err := env.isDirectory(arg)
		if err != nil {
			return in, nil, misuse{err}
		}
		if isDir {
			dirs = append(dirs, arg)
			continue
		}
		calls, err := env.named(f, arg, closure.Pos{})
		if err != nil {
			return in, nil, misuse{hint.With(err, "there is no directory of that name, either")}
		}
		in.Starts = append(in.Starts, calls...)
	}
	if len(dirs) == 0 && (len(f.vars) > 0 || len(f.varFiles) > 0) {
		return in, nil, misuse{errors.New("--var and --var-file go with DIR")}
	}
	for _, name := range f.lists {
		calls, err := env.readList(f, name)
		if err != nil {
			return in, nil, misuse{err}
		}
		in.Starts = append(in.Starts, calls...)
	}
	for _, name := range f.locks {
		if in.Locked, err = readLock(name, in.Locked); err != nil {
			return in, nil, misuse{err}
		}
	}
	called, wrong, err := f.starts(ctx, dirs...)
	in.Starts = append(in.Starts, called...)
	return in, wrong, err
}

// isDirectory reports whether an argument is a directory, and not the address of a module.
func (env *environment) isDirectory(arg string) (bool, error) {
	info, err := os.Stat(arg)
	switch {
	case filepath.IsAbs(arg), arg == ".", arg == "..", strings.HasPrefix(arg, "./"), strings.HasPrefix(arg, "../"):
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", arg)
		}
		return true, err
	case err != nil || !info.IsDir():
		return false, nil
	}
	if _, err := env.chosen(arg); err == nil {
		return false, hint.With(fmt.Errorf("%s is a directory, and could be the address of a module", arg), "./"+arg+" is the directory; a hostname before it makes it an address")
	}
	return true, nil
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
func (env *environment) readList(f mirrorFlags, name string) (all []closure.Start, err error) {
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
		at := closure.Pos{File: name, Line: i + 1}
		calls, err := env.named(f, s, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.Place(), err)
		}
		all = append(all, calls...)
	}
	return all, nil
}

// named returns what ADDRESS[//SUBDIR][@CONSTRAINT] calls, which stands at a place.
func (env *environment) named(f mirrorFlags, arg string, at closure.Pos) (all []closure.Start, err error) {
	source, constraint, given := strings.Cut(arg, "@")
	address, subdir, below := strings.Cut(source, "//")
	if given {
		address += "@" + constraint
	}
	w, err := env.wanted(address)
	if err != nil {
		return nil, err
	}
	if source = w.Module; below {
		source += "//" + subdir
	}
	for _, client := range f.readers() {
		all = append(all, closure.Start{Client: client, Call: closure.Call{Pos: at, Source: source, Version: w.Versions}})
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
