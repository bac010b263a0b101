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
		Short: "Download the packages that a configuration needs",
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
	cmd.Flags().StringArrayVarP(&f.lists, "file", "f", nil, "`file` with an ADDRESS[@CONSTRAINT] in each line; - is standard input")
	cmd.Flags().StringArrayVar(&f.locks, "lock", nil, "download the versions in this `file` of \"modproxy lock\"")
	cmd.Flags().BoolVar(&f.check, "check", false, "download nothing, and print the versions that are not cached")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "fail if a call bypasses modproxy")
	cmd.Flags().BoolVar(&f.choice.All, "all-versions", false, "download every version that a constraint selects")
	addFlag(cmd, &f.choice.Newest, "newest", "download the newest `N` versions that a constraint selects", parsePositive)
	addFlag(cmd, &f.choice.Since, "since", "download only versions listed since this `date`, such as 2030-01-31", parseDate)
	addFlag(cmd, &f.toDir, "to-dir", "also write the packages into this `directory`, for a web server", parseFile)
	addFlag(cmd, &f.groups, "as", groupsUsage, parseNames)
	cmd.Flags().BoolVar(&f.unpacked, "unpacked", false, "with --to-dir, unpack providers: only for clients with access to the directory")
	cmd.Flags().BoolVar(&f.providers, "providers", true, "also download the providers that DIR and modules require")
	addFlag(cmd, &f.platforms, "platform", "download packages of providers for this `platform`, such as linux_amd64 (providers.platforms, or that of the machine)",
		func(s string) ([]config.Platform, error) {
			var p config.Platform
			err := p.UnmarshalText([]byte(s))
			return append(f.platforms, p), err
		})
}

const mirrorHelp = `Download and store the modules that the configuration in DIR calls, the modules
that these call, and so on, each in the version that a client chooses. Stored
packages are not downloaded again. To continue an interrupted mirror, repeat
the command.

Unless --providers=false is given, modproxy also downloads the required
providers. It chooses one version of each provider that all constraints select,
or the version in DIR/.terraform.lock.hcl. It downloads the checksums, the
signature, and the package for each --platform.

ADDRESS is the address of a module, or of a provider
(registry.example.com/namespace/type, or namespace/type). An address without a
hostname is in the first upstream. For a module, modproxy also downloads the
modules that its submodules call, unless ADDRESS//SUBDIR names one submodule.
CONSTRAINT has the form of the argument "version" of a module call, and can be
a version.

-f reads ADDRESS[@CONSTRAINT] from the lines of a file, or with "-" from
standard input, such as the output of "modproxy missing --list" on the other
side. Platforms can follow the address of a provider. Lines that begin with #
are comments. --lock downloads exactly the versions in a file of "modproxy
lock". Their content must match the file.

modproxy reads DIR as Terraform or OpenTofu does. The client follows from the
registries in .terraform.lock.hcl, from .terraform-version or
.opentofu-version, or from files that only OpenTofu reads. Otherwise it is the
client that installs most through this proxy. If that is unknown, modproxy
reads DIR for both clients: it downloads modules and providers without a
hostname twice, from the registry of each client. --client chooses the client.

--newest and --all-versions download more of the versions that CONSTRAINT, or a
constraint in DIR, selects. --since downloads the versions that are listed since
a date.

modproxy prints calls that bypass it, such as git::https://…, with file and
line. With --strict, they are errors. A call of a registry that is not in
upstreams is always an error. --check downloads nothing. It prints the versions
that are not cached, as lines for -f.

--to-dir also writes the packages into a directory, as files for a web server.
For OpenTofu, any web server can serve them; for Terraform, the web server must
add a header. The file nginx.conf in the directory configures nginx, and has the
host blocks for clients. The subdirectory providers is a file system mirror of
the providers, and a network mirror if a web server serves it by https. With
--unpacked, it is only a file system mirror: clients link to the unpacked files.
modproxy prints the provider_installation blocks for clients. Existing content
of the directory stays.

modproxy downloads the versions for a client without groups, or with --as the
versions for clients in these groups.

Exit codes: 0 all versions are cached, 1 some are not, and the reasons are
printed, 2 the command line is wrong.`

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
