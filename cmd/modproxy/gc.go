package main

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/config"
)

// orphanAge is how long packages without a record stay. They are what a crash
// left, or are about to have one.
const orphanAge = time.Hour

// tidying is what "modproxy gc" asks for, and tidied what it is told.
type (
	tidying struct {
		MaxSize    int64   `json:"max_size,omitempty"`   // bytes; 0: as many as there are
		Quarantine float64 `json:"quarantine,omitempty"` // seconds; 0: all of it stays
		DryRun     bool    `json:"dry_run,omitempty"`
	}
	tidied struct {
		cache.Tidied
		Quarantine cache.Removed `json:"quarantine"`
		DryRun     bool          `json:"dry_run,omitempty"`
	}
)

func (s *storage) tidy(w http.ResponseWriter, r *http.Request) (err error) {
	var in tidying
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	if in.MaxSize < 0 || in.Quarantine < 0 {
		return fmt.Errorf("%w: a size, and an age, must not be less than 0", modproxy.ErrInvalid)
	}
	out := tidied{DryRun: in.DryRun}
	if in.Quarantine > 0 { // it counts to the bound, and so goes first
		age := time.Duration(in.Quarantine * float64(time.Second))
		if out.Quarantine, err = s.store.Quarantined(age, !in.DryRun); err != nil {
			return err
		}
	}
	limit := in.MaxSize
	if limit > 0 && in.DryRun {
		limit += out.Quarantine.Bytes
	}
	out.Tidied, err = s.cache.Tidy(r.Context(), cache.Tidy{
		MaxSize: limit, OrphanAge: orphanAge, DryRun: in.DryRun,
	})
	if err != nil {
		return err
	}
	return writeJSON(w, out)
}

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
			in := tidying{MaxSize: int64(c.Cache.MaxSize), Quarantine: time.Duration(quarantine).Seconds(), DryRun: dryRun}
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
			return withAPI(cmd.Context(), c, openStorage, func(a *api) error {
				var out tidied
				if err := a.ask(cmd.Context(), "POST", "/-/api/packages/tidy", in, &out); err != nil {
					return err
				}
				if asJSON {
					return env.printJSON(out)
				}
				_, err := fmt.Fprint(env.stdout, out)
				return err
			})
		},
	}
	cmd.Flags().StringVar(&size, "max-size", "", "total `size` of the packages to keep, such as 50GiB (cache.max_size)")
	cmd.Flags().Var(&quarantine, "quarantine", "also remove what was set aside this `long` ago, such as 30d")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "remove nothing, and print what would be removed")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print one JSON document: {"orphans": …, "evicted": …, "quarantine": …, "kept_bytes": …}`)
	return cmd
}

// String says it in a few lines.
func (t tidied) String() string {
	verb := "removed"
	if t.DryRun {
		verb = "would remove"
	}
	line := func(r cache.Removed, what string) string {
		return fmt.Sprintf("%s %d %s, %s\n", verb, r.Packages, what, sizeText(r.Bytes))
	}
	return line(t.Orphans, "packages without a record") + line(t.Evicted, "packages over the bound") +
		line(t.Quarantine, "files from the quarantine") + fmt.Sprintf("%s are kept\n", sizeText(t.Kept))
}
