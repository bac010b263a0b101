package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/store"
)

func newGCCommand(env *environment) *cobra.Command {
	var size string
	var quarantine duration
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove unneeded data, and packages over the size limit",
		Long: `Remove packages without a record, which a crash can leave, once they are an hour
old. Then remove the least recently used packages, until no more than --max-size is
kept. The ledger stays unchanged.

The directory quarantine holds damaged packages and replaced indexes as evidence.
--quarantine removes those that have been there for the given time.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			in := store.GC{AsideAge: time.Duration(quarantine), DryRun: dryRun}
			if c != nil {
				in.MaxSize = int64(c.Cache.MaxSize)
			}
			if size != "" {
				max, err := config.ParseByteSize(size)
				if err == nil && max == 0 {
					err = errors.New("want more than nothing: \"modproxy rm\" removes packages by their names")
				}
				if err != nil {
					return misuse{fmt.Errorf("--max-size: %w", err)}
				}
				in.MaxSize = int64(max)
			}
			if quarantine < 0 {
				return misuse{errors.New("--quarantine: must not be less than 0")}
			}
			return env.operate(cmd.Context(), app.Packages, func(api *admin.Client) error {
				out, err := api.Tidy(cmd.Context(), in)
				if err != nil {
					return err
				}
				if asJSON {
					return printDocument(env.stdout, struct {
						store.Collected
						DryRun bool `json:"dry_run,omitempty"`
					}{out, dryRun})
				}
				_, err = fmt.Fprint(env.stdout, collectedText(out, dryRun))
				return err
			})
		},
	}
	addServerFlags(cmd)
	cmd.Flags().StringVar(&size, "max-size", "", "total `size` of the packages to keep, such as 50GiB (cache.max_size)")
	cmd.Flags().Var(&quarantine, "quarantine", "also remove what was set aside this `long` ago, such as 30d")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing, and print what would be removed")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"orphans": …, "evicted": …, "quarantine": …, "kept_bytes": …}`)
	return cmd
}

// collectedText is what was removed, in a few lines.
func collectedText(c store.Collected, dryRun bool) string {
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	line := func(r store.Amount, what string) string {
		return fmt.Sprintf("%s %d %s, %s\n", verb, r.Blobs, what, sizeText(r.Bytes))
	}
	return line(c.Orphans, "packages without a record") + line(c.Evicted, "packages over the bound") +
		line(c.Aside, "files from the quarantine") + fmt.Sprintf("%s are kept\n", sizeText(c.Kept))
}
