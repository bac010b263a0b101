package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/store"
)

func newGCCommand(env *environment) *cobra.Command {
	var size config.ByteSize
	var in store.Collection
	var r removal
	cmd := env.withServer(&cobra.Command{
		Use:   "gc",
		Short: "Remove unneeded data, and packages over the size limit",
		Long: `Remove garbage. First, gc removes cached results of reading configurations:
those of packages that are not stored any more, and the oldest beyond their
limit. Then it removes packages that have no record in the index and are older
than an hour; a crash can leave such packages. Last, it removes the least
recently used packages until at most --max-size is stored.

The ledger stays unchanged. On a terminal, gc prints the packages that it would
remove, and asks for confirmation. Without a terminal, it does not ask.

The directory quarantine holds damaged packages and replaced indexes as
evidence. --quarantine removes files that have been there for the given time.`,
		Example: `  modproxy gc --dry-run
  modproxy gc --max-size 50GiB --quarantine 30d --yes`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			if size == 0 && c != nil {
				size = c.Cache.MaxSize
			}
			in.MaxSize, in.DryRun = int64(size), r.dryRun
			if r.asks(env) {
				if err := env.confirmCollect(cmd.Context(), in); err != nil {
					return err
				}
			}
			return env.collect(cmd.Context(), in)
		},
	})
	addFlag(cmd, &size, "max-size", "maximum total `size` of the stored packages, such as 50GiB (cache.max_size)", parseSize)
	addFlag(cmd, &in.QuarantineAge, "quarantine", "also remove files that have been quarantined for this `duration`, such as 30d", parseDuration)
	r.addTo(cmd)
	return withJSON(cmd, `"module", "version", "digest", "size_bytes"`, `"orphans", "evicted", "quarantine", "kept_bytes", …`)
}

// collect removes the packages that in selects, or prints what it would remove.
func (env *environment) collect(ctx context.Context, in store.Collection) error {
	out, err := ask(ctx, env, admin.PackagesCollect, in, printer(env, removableText))
	if err != nil {
		return err
	}
	if out.Remark != "" {
		env.remark(errors.New(out.Remark))
	}
	return env.end(struct {
		admin.CollectResult
		DryRun bool `json:"dry_run,omitempty"`
	}{out, in.DryRun}, collectedText(out.Collected, in.DryRun))
}

// confirmCollect prints what would be removed and asks for confirmation, unless nothing would be removed.
func (env *environment) confirmCollect(ctx context.Context, in store.Collection) error {
	in.DryRun = true
	out, err := ask(ctx, env, admin.PackagesCollect, in, func(r admin.RemovablePackage) error {
		_, err := fmt.Fprint(env.stderr, removableText(r))
		return err
	})
	if err != nil || out.Orphans.Blobs+out.Evicted.Blobs+out.Quarantine.Blobs == 0 {
		return err
	}
	fmt.Fprint(env.stderr, collectedText(out.Collected, true))
	return env.confirm(ctx, "Remove them?")
}

// removableText returns the line for a package that would be removed.
func removableText(r admin.RemovablePackage) string {
	return fmt.Sprintf("would remove %s, %s\n", cmp.Or(r.Shown(), "a package without a record, sha256:"+r.Digest.String()), modproxy.SizeText(r.Size))
}

func parseSize(s string) (config.ByteSize, error) {
	size, err := config.ParseByteSize(s)
	if err == nil && size == 0 {
		err = errors.New("want more than nothing: \"modproxy rm\" removes packages by their names")
	}
	return size, err
}

// collectedText describes the removed packages in a few lines.
func collectedText(c store.Collected, dryRun bool) string {
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	line := func(r store.Amount, what string) string {
		return fmt.Sprintf("%s %d %s, %s\n", verb, r.Blobs, what, modproxy.SizeText(r.Bytes))
	}
	return line(c.Orphans, "packages without a record") + line(c.Evicted, "packages over the bound") +
		line(c.Quarantine, "files from the quarantine") + fmt.Sprintf("%s are stored\n", modproxy.SizeText(c.Kept))
}
