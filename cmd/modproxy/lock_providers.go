package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/lock"
	"github.com/modproxy/modproxy/lockfile"
)

func newLockProvidersCommand(env *environment) *cobra.Command {
	var f lockFlags
	var platforms []modproxy.Platform
	cmd := withKeys(&cobra.Command{
		Use:   "providers [DIR] --platform OS_ARCH…",
		Short: "Complete the hashes in .terraform.lock.hcl from a ledger",
		Long:  lockProvidersHelp,
		Example: `  modproxy lock providers --platform linux_amd64 --platform darwin_arm64
  modproxy lock providers live/prod --platform linux_amd64 --check`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.misused(); err != nil {
				return err
			}
			if len(platforms) == 0 {
				return misuse{errors.New("--platform says which platforms to lock the providers for: --platform linux_amd64, say, which may be given again")}
			}
			return env.lockProviders(cmd.Context(), cmp.Or(strings.Join(args, ""), "."), platforms, f)
		},
	}, "data")
	addFlag(cmd, &platforms, "platform", "complete the hashes for this `platform`, such as linux_amd64; may be repeated",
		func(s string) ([]modproxy.Platform, error) {
			p, err := modproxy.ParsePlatform(s)
			if slices.Contains(platforms, p) {
				return platforms, err
			}
			return append(platforms, p), err
		})
	cmd.Flags().BoolVar(&f.check, "check", false, "write nothing, and fail if a hash is missing")
	f.addTo(cmd)
	return withJSON(cmd, `"file", "module", "version", "hashes"`, `"ledger"`)
}

const lockProvidersHelp = `Add hashes for other platforms to .terraform.lock.hcl, which "terraform init" or
"tofu init" has written for the configuration in DIR (default: the working
directory). Each provider gets the checksums (zh) of its packages for all
platforms, and the hashes (h1) of its packages for each --platform, as
"terraform providers lock" would write them. They come from the ledger, and
nothing is downloaded. The rest of the file stays unchanged.

The ledger is that of the proxy at --url, proven by its signed tree, or the one
in the data directory. It has the h1 of packages that modproxy has downloaded:
"modproxy mirror --platform" downloads more. If a hash in the file differs from
the ledger, the command fails, and the file stays unchanged.

With --check, write nothing. Exit codes: 0 no hash is missing, 1 some are
missing or an error occurred, 2 the command line is wrong.`

// lockProviders adds the missing hashes of platforms to the .terraform.lock.hcl in dir. With f.check, a missing hash is an error.
func (env *environment) lockProviders(ctx context.Context, dir string, platforms []modproxy.Platform, f lockFlags) error {
	text, providers, err := readProviders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return hint.With(err, `"terraform init" or "tofu init" writes it`)
	} else if err != nil {
		return err
	}
	name, added := filepath.Join(dir, lockfile.Name), 0
	more := map[modproxy.Ref][]string{}
	asked, err := env.askLedger(ctx, f, func(l lockLedger) (wrong []error) {
		for _, p := range providers {
			missing, errs := lock.MissingHashes(ctx, p, platforms, l)
			if f.check && len(missing) > 0 && len(errs) == 0 {
				errs = []error{fmt.Errorf("%s: %s lacks %s", p.Ref, name, strings.Join(missing, " "))}
			}
			wrong = append(wrong, errs...)
			more[p.Ref], added = missing, added+len(missing)
		}
		return wrong
	})
	switch {
	case err != nil:
		return err
	case asked == "":
		return noLedger()
	case added == 0:
		return env.end(lockedIn{asked}, fmt.Sprintf("%s lacks no hash, says the ledger of %s.\n", name, asked))
	}
	if text, err = lockfile.AddHashes(text, more); err != nil {
		return err
	}
	err = publishFile(ctx, name, 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range providers {
		if p.Hashes = more[p.Ref]; len(p.Hashes) > 0 {
			if err := env.printLocked(name, nil, []lockfile.Provider{p}); err != nil {
				return err
			}
		}
	}
	return env.end(lockedIn{asked}, fmt.Sprintf("%s has %s more, from the ledger of %s.\n", name, count(added, "line"), asked))
}

// readProviders returns the text of the .terraform.lock.hcl in dir, and its entries.
func readProviders(dir string) (text []byte, all []lockfile.Provider, err error) {
	name := filepath.Join(dir, lockfile.Name)
	if text, err = durable.ReadRegular(name, lockfile.MaxSize); err != nil {
		return nil, nil, err
	}
	if all, err = lockfile.Parse(text); err != nil {
		err = hint.With(fmt.Errorf("%s: %w", name, err), "only a file that a client has written is read; \"terraform init\" writes it if it is missing")
	}
	return text, all, err
}
