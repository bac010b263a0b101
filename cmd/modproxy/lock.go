package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/lockfile"
)

// lockFlags are the flags of "modproxy lock".
type lockFlags struct {
	check, noLedger, noProviders bool
	url, key, tokenFile          string
}

// addTo adds the flags that select a ledger.
func (f *lockFlags) addTo(cmd *cobra.Command) {
	addFlag(cmd, &f.url, "url", "`URL` of the proxy whose ledger is used", parseURL)
	addFlag(cmd, &f.key, "key", "the verifier `key` of that ledger (default: requested from the proxy)", parseKey)
	cmd.Flags().StringVar(&f.tokenFile, "token-file", "", "`file` with the token for that proxy (default: TF_TOKEN_… of its host, by https)")
}

// misused returns an error for flags that cannot be combined.
func (f *lockFlags) misused() error {
	switch {
	case f.url == "" && (f.key != "" || f.tokenFile != "") || f.url != "" && f.noLedger:
		return misuse{errors.New("--key and --token-file go with --url, and --no-ledger does not")}
	case f.noProviders && (!f.check || f.noLedger):
		return misuse{errors.New("--no-providers goes with --check, and not with --no-ledger, which compares none either")}
	}
	return nil
}

func newLockCommand(env *environment) *cobra.Command {
	var f lockFlags
	cmd := withKeys(&cobra.Command{
		Use:   "lock [DIR]",
		Short: "Record the modules of a configuration, or check them",
		Long:  lockHelp,
		Example: `  modproxy lock live/prod
  modproxy lock --check live/prod --url https://modules.example.com`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := cmp.Or(strings.Join(args, ""), ".")
			if err := f.misused(); err != nil {
				return err
			}
			if f.check {
				return env.checkLock(cmd.Context(), dir, f)
			}
			return env.writeLock(cmd.Context(), dir, f)
		},
	}, "data")
	cmd.Flags().BoolVar(&f.check, "check", false, "compare installed modules with modproxy.lock, and lock files with a ledger")
	f.addTo(cmd)
	cmd.Flags().BoolVar(&f.noLedger, "no-ledger", false, "use no ledger")
	cmd.Flags().BoolVar(&f.noProviders, "no-providers", false, "leave .terraform.lock.hcl out")
	cmd.AddCommand(newLockProvidersCommand(env))
	return withJSON(cmd, `"file", "module", "version", …`, `"ledger"`)
}

const lockHelp = `Write modproxy.lock for the configuration in DIR (default: the working
directory). It lists every registry module that "terraform init" or "tofu init"
has installed, including nested modules, with its version and the hash of its
package. Put the file into version control.

With --check, compare the installed modules with modproxy.lock, and
modproxy.lock and the clients' .terraform.lock.hcl with a ledger, and write
nothing. Exit codes: 0 all agree, 1 something differs or is missing, 2 the
command line is wrong. Providers that clients install without modproxy are in no
ledger: --no-providers leaves .terraform.lock.hcl out.

The ledger is that of the proxy at --url, proven by its signed tree, or the one
in the data directory. --check requires a ledger, unless --no-ledger is given.
Without --check, the ledger is used if it exists, and versions that differ from
it are not locked.

Versions that operators of the ledger have blocked or rejected differ; with
--url, versions that the policy of that proxy denies differ, too. Deprecated
versions are named.

Modules that do not come from a registry are named, but not locked. If clients
copy a package for a second call, they leave out names that begin with a dot;
such a copy is compared without these names.`

// lockedVersion is a module or provider in a lock file.
type lockedVersion struct {
	File string `json:"file"`
	versionname.Name
	Sum    modproxy.Sum `json:"sum,omitempty"`
	Hashes []string     `json:"hashes,omitempty"`
}

// lockedIn is the summary of verbs that compare lock files with a ledger.
type lockedIn struct {
	Ledger string `json:"ledger,omitempty"` // empty: no ledger was asked
}

// printLocked prints the entries of a lock file with --json.
func (env *environment) printLocked(file string, entries []lock.Entry, providers []lockfile.Provider) error {
	var all []lockedVersion
	for _, e := range entries {
		all = append(all, lockedVersion{file, versionname.Of(e.Ref), e.Sum, nil})
	}
	for _, p := range providers {
		all = append(all, lockedVersion{file, versionname.Of(p.Ref), "", p.Hashes})
	}
	for _, one := range all {
		if err := env.item(one, ""); err != nil {
			return err
		}
	}
	return nil
}

// installed returns the modules that the client has installed for the configuration in dir, and prints those that cannot be locked.
func (env *environment) installed(dir string) ([]lock.Call, error) {
	calls, others, err := lock.Read(dir, cmp.Or(env.variable("TF_DATA_DIR"), ".terraform"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint.With(fmt.Errorf("no modules are installed: %w", err), `"terraform init" and "terraform get" install them, or the same of tofu`)
	} else if err != nil {
		return nil, err
	}
	for _, key := range others {
		fmt.Fprintf(env.stderr, "modproxy: not locked, because it does not come from a registry: module %s\n", printable(key))
	}
	for _, name := range lock.Passed(calls) {
		fmt.Fprintf(env.stderr, "modproxy: not locked, because it belongs to git: %s\n", printable(name))
	}
	return calls, nil
}

func (env *environment) writeLock(ctx context.Context, dir string, f lockFlags) error {
	calls, err := env.installed(dir)
	if err != nil {
		return err
	}
	entries, wrong := lock.Make(calls)
	if len(wrong) > 0 {
		return problems(wrong)
	}
	asked, err := env.checkLedger(ctx, entries, nil, f)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, lock.Name)
	err = publishFile(ctx, name, 0o644, func(w io.Writer) error {
		_, err := w.Write(lock.Format(entries))
		return err
	})
	if err != nil {
		return err
	}
	if err := env.printLocked(name, entries, nil); err != nil {
		return err
	}
	return env.end(lockedIn{asked}, fmt.Sprintf("%s has %s%s.\n", name, count(len(entries), "module"), agrees(asked)))
}

func agrees(ledger string) string {
	if ledger == "" {
		return ""
	}
	return ", and the ledger of " + ledger + " agrees"
}

func (env *environment) checkLock(ctx context.Context, dir string, f lockFlags) error {
	var providers []lockfile.Provider
	if !f.noLedger && !f.noProviders {
		var err error
		if _, providers, err = readProviders(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	name := filepath.Join(dir, lock.Name)
	calls, err := env.installed(dir)
	_, absent := os.Lstat(name)
	modules := !errors.Is(err, fs.ErrNotExist) || !errors.Is(absent, fs.ErrNotExist) || len(providers) == 0
	var entries []lock.Entry
	var wrong problems
	if modules {
		if err == nil {
			entries, err = readLock(dir, name)
		}
		if err != nil {
			return err
		}
		wrong = lock.Check(entries, calls)
	}
	asked, err := env.checkLedger(ctx, entries, providers, f)
	if err != nil {
		wrong = append(wrong, err)
	}
	if len(wrong) > 0 {
		return wrong
	}
	if asked == "" && !f.noLedger {
		return noLedger("--no-ledger leaves it out")
	}
	return env.printChecked(dir, modules, entries, providers, asked)
}

// printChecked prints that lock files in dir agree with the installed modules, and with the ledger in asked.
func (env *environment) printChecked(dir string, modules bool, entries []lock.Entry, providers []lockfile.Provider, asked string) error {
	text, name, other := "", filepath.Join(dir, lock.Name), filepath.Join(dir, lockfile.Name)
	if modules {
		text = fmt.Sprintf("%s: %s installed as locked%s.\n", name, count(len(entries), "module"), agrees(asked))
	}
	if len(providers) > 0 {
		text += fmt.Sprintf("%s: %s locked%s.\n", other, count(len(providers), "provider"), agrees(asked))
	}
	err := env.printLocked(name, entries, nil)
	if err == nil {
		err = env.printLocked(other, nil, providers)
	}
	if err != nil {
		return err
	}
	return env.end(lockedIn{asked}, text)
}

// readLock returns the entries of modproxy.lock in dir. name is its path for messages.
func readLock(dir, name string) ([]lock.Entry, error) {
	text, err := durable.ReadRegular(name, lock.MaxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint.With(err, fmt.Sprintf("\"modproxy lock %s\" writes it", clean.ShellQuote(dir)))
	} else if err != nil {
		return nil, err
	}
	entries, err := lock.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, nil
}

func noLedger(remedies ...string) error {
	remedies = append([]string{"--url names a proxy, --data a data directory"}, remedies...)
	return misuse{hint.With(errors.New("no ledger to compare the file with"), remedies...)}
}

// checkLedger compares entries and providers with the ledger that f selects. asked describes the ledger; it is empty if no ledger is
// asked. The error may be problems.
func (env *environment) checkLedger(ctx context.Context, entries []lock.Entry, providers []lockfile.Provider, f lockFlags) (asked string, err error) {
	if f.noLedger {
		return "", nil
	}
	return env.askLedger(ctx, f, func(l lockLedger) []error {
		versions := make([]modproxy.Ref, 0, len(entries)+len(providers))
		for _, e := range entries {
			versions = append(versions, e.Ref)
		}
		for _, p := range providers {
			versions = append(versions, p.Ref)
		}
		wrong := append(lock.CheckLedger(ctx, entries, l), lock.CheckProviders(ctx, providers, l)...)
		for _, line := range lock.Deprecated(ctx, versions, l) {
			fmt.Fprintf(env.stderr, "modproxy: %s\n", printable(line))
		}
		return wrong
	})
}

type lockLedger interface {
	lock.Ledger
	lock.Deprecations
}

// withMirror adds to the last error the command that fetches everything that the ledger lacks, if it lacks something.
func withMirror(wrong []error) []error {
	var providers, platforms []string
	for _, err := range wrong {
		if lacking, ok := errors.AsType[*lock.NoHash](err); ok {
			providers = append(providers, clean.ShellQuote(lacking.Address.String()+"@"+lacking.Version))
			for _, p := range lacking.Platforms {
				platforms = append(platforms, "--platform "+p.String())
			}
		}
	}
	if len(providers) == 0 {
		return wrong
	}
	slices.Sort(providers)
	slices.Sort(platforms)
	last := len(wrong) - 1
	wrong[last] = hint.With(wrong[last], fmt.Sprintf("what the ledger lacks, this fetches: modproxy mirror %s %s",
		strings.Join(slices.Compact(providers), " "), strings.Join(slices.Compact(platforms), " ")))
	return wrong
}

// askLedger calls ask with the ledger that f selects. The errors of ask become problems. asked describes the ledger; it is empty if no
// ledger is asked.
func (env *environment) askLedger(ctx context.Context, f lockFlags, ask func(lockLedger) []error) (asked string, err error) {
	var l lockLedger
	if f.url != "" {
		token, err := env.token(f)
		if err != nil {
			return "", err
		}
		remote, err := lock.DialLedger(ctx, f.url, f.key, token)
		if err != nil {
			return "", fmt.Errorf("ledger of %s: %w", f.url, err)
		}
		l, asked = remote, f.url
	} else {
		c, err := env.settings()
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(c.LedgerDir()); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		local, err := app.OpenLedger(c)
		if err != nil {
			return "", err
		}
		defer local.Close()
		l, asked = local, c.LedgerDir()
	}
	if wrong := ask(l); len(wrong) > 0 {
		return asked, problems(withMirror(wrong))
	}
	return asked, nil
}

// token returns the token for the proxy at f.url: the one in --token-file, or the one that clients would use for its host
// (https://developer.hashicorp.com/terraform/cli/config/config-file#environment-variable-credentials). Clients have no variable for a host
// with a port, and use https only. For this machine, token ignores both restrictions.
func (env *environment) token(f lockFlags) (string, error) {
	if f.tokenFile != "" {
		return readToken(f.tokenFile)
	}
	u, _ := url.Parse(f.url) // checked before
	host := normalised(u.Host)
	if config.IsLocalURL(f.url) {
		host = u.Hostname()
	} else if u.Scheme != "https" {
		host = ""
	}
	if name := hostname.TokenVariable(host); host != "" && name != "" {
		return env.variable(name), nil
	}
	return "", nil
}
