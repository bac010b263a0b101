package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/internal/versionname"
)

func newRmCommand(env *environment) *cobra.Command {
	var in admin.RemoveRequest
	var r removal
	cmd := env.withServer(&cobra.Command{
		Use:   "rm MODULE VERSION | MODULE --all",
		Short: "Remove the package of one version, or of all versions",
		Long: `Remove a package. Its bytes stay if another version has the same content. Its
record stays in the ledger: if a client requests the package, modproxy downloads
it again, and refuses content that differs from the record ("modproxy ledger
accept" accepts other content).

` + moduleUsage + `

--all removes the packages of all its versions. On a terminal, rm prints the
packages that it would remove, and asks for confirmation. Without a terminal,
--all needs --yes.`,
		Example: `  modproxy rm acme/vpc/aws 1.0.0
  modproxy rm acme/vpc/aws --all --dry-run
  modproxy rm acme/vpc/aws --all --yes`,
		Args:       arguments(1, 2),
		SuggestFor: []string{"remove", "delete"},
		RunE:       func(cmd *cobra.Command, args []string) error { return env.remove(cmd.Context(), in, r, args) },
	})
	cmd.Flags().BoolVar(&in.All, "all", false, "remove the packages of all versions")
	r.addTo(cmd)
	return withJSON(cmd, `"module", "version", "platform", "size_bytes", "sum", "there", …`, "")
}

// remove removes the packages that in and args select. At a terminal it asks for confirmation.
func (env *environment) remove(ctx context.Context, in admin.RemoveRequest, r removal, args []string) error {
	v, err := env.chosen(args...)
	if err != nil {
		return err
	}
	if in.All == (len(args) > 1) {
		return misuse{errors.New("want a VERSION, or --all for the packages of all versions")}
	}
	in.Name, in.DryRun = versionname.Of(v), r.dryRun
	switch {
	case r.asks(env):
		err = env.confirmRemove(ctx, in)
	case in.All && !r.yes && !r.dryRun:
		err = misuse{hint.With(fmt.Errorf("--all removes the packages of all versions of %s, and no terminal can confirm that", v.Address),
			"--yes removes them, --dry-run prints them")}
	}
	if err != nil {
		return err
	}
	_, err = ask(ctx, env, admin.PackagesRemove, in, printer(env, func(p admin.RemovedPackage) string { return removedText(p, in.DryRun) }))
	if err != nil {
		return err
	}
	return env.end(nil, "")
}

// confirmRemove prints what a removal would remove and asks for confirmation, unless no package is stored.
func (env *environment) confirmRemove(ctx context.Context, in admin.RemoveRequest) error {
	in.DryRun = true
	n := 0
	_, err := ask(ctx, env, admin.PackagesRemove, in, func(p admin.RemovedPackage) error {
		if p.There {
			n++
			fmt.Fprint(env.stderr, removedText(p, true))
		}
		return nil
	})
	if err != nil || n == 0 {
		return err
	}
	return env.confirm(ctx, fmt.Sprintf("Remove %s?", count(n, "package")))
}

// removedText describes the result for a package in one line.
func removedText(p admin.RemovedPackage, dryRun bool) string {
	what := "removed " + modproxy.SizeText(p.Size)
	switch {
	case dryRun && p.There && len(p.Shared) > 0:
		return fmt.Sprintf("%s: would be removed; its %s stay for %s\n", p.Shown(), modproxy.SizeText(p.Size), firstNames(p.Shared, 3))
	case dryRun && p.There:
		return fmt.Sprintf("%s: would remove %s\n", p.Shown(), modproxy.SizeText(p.Size))
	case !p.There:
		what = "was not cached"
	case len(p.Shared) > 0:
		have := "has"
		if len(p.Shared) > 1 {
			have = "have"
		}
		what = fmt.Sprintf("removed; its %s stay for %s, which %s the same content", modproxy.SizeText(p.Size), firstNames(p.Shared, 3), have)
	}
	return fmt.Sprintf("%s: %s; when it is fetched again it must be %s\n", p.Shown(), what, sumText(p.Name, p.Sum))
}
