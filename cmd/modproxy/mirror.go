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

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/mirror"
)

// mirrorFlags are the flags of "modproxy mirror".
type mirrorFlags struct {
	directoryFlags
	lists, locks, groups []string
	check, strict        bool
	toDir                string
	providers, unpacked  bool
	platforms            []config.Platform
	choice               mirror.Choice
}

func newMirrorCommand(env *environment) *cobra.Command {
	var f mirrorFlags
	cmd := env.withServer(&cobra.Command{
		Use:   "mirror DIR… | ADDRESS[@CONSTRAINT]… | -f LIST | --lock FILE",
		Short: "Fetch all that a configuration needs",
		Long:  mirrorHelp,
		Example: `  modproxy mirror live/prod
  modproxy mirror 'acme/vpc/aws@~> 5.0' hashicorp/aws --platform linux_amd64
  modproxy mirror -f LIST
  modproxy mirror live/prod --to-dir /srv/mirror`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, failed, err := env.toMirror(cmd.Context(), args, f)
			if err != nil {
				return err
			}
			return env.mirror(cmd.Context(), in, f, failed)
		},
	})
	f.addTo(cmd)
	return withJSON(cmd, `"package": {…}} or {"bypass": {…}} or {"problem": {…}`, `"asked", "fetched", "kept", "problems", …`)
}

// addTo adds all flags of "modproxy mirror".
func (f *mirrorFlags) addTo(cmd *cobra.Command) {
	f.directoryFlags.add(cmd)
	cmd.Flags().StringArrayVarP(&f.lists, "file", "f", nil, "`file` with an ADDRESS[@CONSTRAINT] in each line; - for the standard input")
	cmd.Flags().StringArrayVar(&f.locks, "lock", nil, "`file` that \"modproxy lock\" wrote")
	cmd.Flags().BoolVar(&f.check, "check", false, "fetch nothing, and print what is not cached")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "what is called past modproxy is an error")
	cmd.Flags().BoolVar(&f.choice.All, "all-versions", false, "every version that a constraint selects")
	addFlag(cmd, &f.choice.Newest, "newest", "the newest `N` versions that a constraint selects", parsePositive)
	addFlag(cmd, &f.choice.Since, "since", "only versions listed since this `date`, such as 2030-01-31", parseDate)
	addFlag(cmd, &f.toDir, "to-dir", "also write the packages into this `directory`, for a web server", parseFile)
	addFlag(cmd, &f.groups, "as", groupsUsage, parseNames)
	cmd.Flags().BoolVar(&f.unpacked, "unpacked", false, "with --to-dir, unpack providers: for clients that have the directory only")
	cmd.Flags().BoolVar(&f.providers, "providers", true, "fetch the providers that DIR and modules require, too")
	addFlag(cmd, &f.platforms, "platform", "fetch packages of providers for this `platform`, such as linux_amd64 (providers.platforms, or that of the machine)",
		func(s string) ([]config.Platform, error) {
			var p config.Platform
			err := p.UnmarshalText([]byte(s))
			return append(f.platforms, p), err
		})
}

const mirrorHelp = `Download and store packages: those that the configuration in DIR calls, those
that these call, and so on, each in the version that a client chooses. Stored
packages are not downloaded again. To continue a mirror that was interrupted,
repeat the command.

The providers that all of them require come, too, unless --providers=false: of
each one version, which all constraints select, or the one in
DIR/.terraform.lock.hcl; with its checksums and signature, and its packages for
each --platform.

ADDRESS is that of a module, or of a provider
(registry.example.com/namespace/type, or namespace/type); without its hostname,
one of the first upstream. What submodules of a module call is fetched, too,
unless ADDRESS//SUBDIR names one. CONSTRAINT is as in the argument "version" of
a module call; a version is one, too. -f reads ADDRESS[@CONSTRAINT] from the
lines of a file, or with "-" from the standard input: what "modproxy missing
--list" has printed on the other side. Behind a provider may be platforms.
Lines that begin with # are remarks. --lock fetches what a file lists that
"modproxy lock" wrote, and nothing else. It must be what the file says.

DIR is read as Terraform or OpenTofu reads it: as the registries in its
.terraform.lock.hcl show, a .terraform-version or .opentofu-version, or files
that only OpenTofu reads; else as the client that installs most through this
proxy, and if that is not known, as both. Modules and providers without a
hostname then come twice, from the registry of each. --client chooses.

--newest and --all-versions fetch more of the versions that a constraint in
DIR, or CONSTRAINT, selects, and --since those that are listed since a date.

What a configuration calls past modproxy, such as git::https://…, is named with
its file and line, and with --strict is an error. A call of a registry that is
not among upstreams always is. --check fetches nothing. It prints what is not
cached, as lines for -f.

--to-dir also writes the packages into a directory, as files that any web
server can serve to OpenTofu, and one that adds a header to Terraform, too:
DIR/nginx.conf says how, and has what clients need. DIR/providers is a mirror
of the providers: of the file system, and for clients of a web server with
https of the network. The provider_installation blocks for clients are printed.
With --unpacked it has the files of providers, which clients then link to, for
the file system only. What is in the directory stays there.

What a client in no group gets is fetched. --as fetches what clients in groups
get.

Exit codes: 0 all is cached, 1 something is not, and why is printed, 2 the
command line is wrong.`

func parsePositive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a number of at least 1, not %.80q", s)
	}
	return n, nil
}

// toMirror reads the selection on the command line. wrong lists problems in parts of configurations; the rest is selected.
func (env *environment) toMirror(ctx context.Context, args []string, f mirrorFlags) (in mirror.Request, wrong problems, err error) {
	in = mirror.Request{Choice: f.choice, Groups: f.groups, Providers: f.providers, Platforms: app.Platforms(f.platforms)}
	if env.config != nil {
		in.Platforms = app.Platforms(f.platforms, env.config.Providers.Platforms)
	}
	switch {
	case len(args)+len(f.lists)+len(f.locks) == 0:
		err = errors.New("want directories, the addresses of modules, -f or --lock")
	case f.choice.All && (f.choice.Newest > 0 || !f.choice.Since.IsZero()):
		err = errors.New("--all-versions goes without --newest and --since")
	case f.unpacked && f.toDir == "":
		err = errors.New("--unpacked goes with --to-dir")
	case f.check && (f.toDir != "" || !f.choice.Since.IsZero()):
		err = errors.New("--check requests no registry and fetches nothing: it cannot be combined with --since and --to-dir")
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
		start, err := env.wanted(arg)
		if err != nil {
			return in, nil, misuse{hint.With(err, "no directory has that name, either")}
		}
		in.Starts = append(in.Starts, f.Named(start)...)
	}
	if len(dirs) == 0 && (len(f.Given) > 0 || len(f.VarFiles) > 0) {
		return in, nil, misuse{errors.New("--var and --var-file go with DIR")}
	}
	for _, name := range f.lists {
		named, err := env.readList(name)
		if err != nil {
			return in, nil, misuse{err}
		}
		in.Starts = append(in.Starts, f.Named(named...)...)
	}
	if in.Locked, err = readLocks(f.locks); err != nil {
		return in, nil, err
	}
	called, wrong, err := f.starts(ctx, env, dirs...)
	in.Starts = append(in.Starts, called...)
	return in, wrong, err
}

// readLocks returns the entries of lock files.
func readLocks(names []string) (all []mirror.Locked, err error) {
	for _, name := range names {
		locked, err := mirror.ReadLockFile(name)
		if err != nil {
			return nil, misuse{err}
		}
		all = append(all, locked...)
	}
	return all, nil
}

// isDirectory reports whether an argument is a directory instead of a module address.
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
	if v, err := env.chosen(arg); err == nil && v.IsModule() {
		err = fmt.Errorf("%s is a directory, and could be the address of a module", arg)
		return false, hint.With(err, "./"+arg+" is the directory; a hostname before it makes it an address")
	}
	return true, nil
}

// readList reads a file with one ADDRESS[@CONSTRAINT] in each line.
func (env *environment) readList(name string) (all []closure.Start, err error) {
	f, err := env.openInput(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mirror.MaxListSize+1))
	if err == nil && len(text) > mirror.MaxListSize {
		err = fmt.Errorf("%s: more than %d bytes", name, mirror.MaxListSize)
	}
	if err != nil {
		return nil, err
	}
	host, err := env.host()
	if err != nil {
		return nil, err
	}
	return mirror.ParseList(name, string(text), host)
}

// wanted reads ADDRESS[//SUBDIR][@CONSTRAINT].
func (env *environment) wanted(arg string) (start closure.Start, err error) {
	host, err := env.host()
	if err != nil {
		return start, err
	}
	return mirror.ParseEntry(arg, host)
}
