package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/store"
)

func newVerifyCommand(env *environment) *cobra.Command {
	var in admin.VerifyRequest
	cmd := env.withServer(&cobra.Command{
		Use:   "verify",
		Short: "Check the stored data for damage",
		Long: `Compare the index, the packages and the ledger, and print every problem.
--read-data also reads every package: its bytes must match the digest in its
record, and its content the sum. Without --repair, nothing is changed.

Exit codes: 0 no problem was found, or all were repaired, 1 a problem remains.`,
		Example: `  modproxy verify
  modproxy verify --read-data --repair`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return env.verify(cmd.Context(), in) },
	})
	cmd.Flags().BoolVar(&in.ReadData, "read-data", false, "also read every package")
	cmd.Flags().BoolVar(&in.Repair, "repair", false, "quarantine damaged packages, to be downloaded again; with --read-data, also create the records of packages without one")
	return withJSON(cmd, `"kind", "module", "version", "text", …`, `"records", "kept", "damage", "repaired", …`)
}

func (env *environment) verify(ctx context.Context, in admin.VerifyRequest) error {
	progress := newProgress(env.rawErr)
	defer progress.clear()
	ledger, index, wrong := 0, 0, 0 // remaining problems
	done, err := ask(ctx, env, admin.PackagesVerify, in, func(line admin.VerifyLine) error {
		if line.Progress != nil {
			progress.show(verifyText(*line.Progress))
			return nil
		}
		switch {
		case line.Damage.OfLedger():
			ledger++
		case line.Damage.Kind == store.DamagedIndex:
			index++
		case line.Damage.Kind == store.WrongRecord && !line.Damage.Repaired:
			wrong++
		}
		progress.clear()
		return env.item(line.Damage, damageText(line.Damage))
	})
	if err != nil {
		return err
	}
	progress.clear()
	if err := env.end(done, verifyText(done)+"\n"); err != nil {
		return err
	}
	if left := done.Damage - done.Repaired; left > 0 {
		var hints []string
		if ledger > 0 {
			hints = append(hints, "put the backup of the directory \"ledger\" back; --repair does not mend the ledger")
		}
		if index > 0 {
			hints = append(hints, `stop modproxy and run "modproxy rebuild", which rebuilds the index; --repair does not mend it`)
		}
		if wrong > 0 {
			hints = append(hints, `modproxy records what the ledger lacks when it serves it, and fetches again what the ledger contradicts; if the ledger is an older copy, put a newer one of the directory "ledger" back`)
		}
		if left > ledger+index+wrong {
			hints = append(hints, `"modproxy verify --read-data --repair" sets damaged packages aside, to be fetched again, and mends records`)
		}
		return hint.With(fmt.Errorf("damage found: %d", left), hints...)
	}
	if done.Orphans.Blobs > 0 && !(in.ReadData && in.Repair) {
		fmt.Fprintln(env.stderr, `hint: "modproxy verify --read-data --repair" makes records of packages without one; "modproxy gc" removes such packages`)
	}
	return nil
}

// damageText describes a problem in one line.
func damageText(d *admin.Damage) string {
	s := string(d.Kind) + ": "
	for _, name := range []string{d.Module, d.Version, d.Platform} {
		if name != "" {
			s += name + " "
		}
	}
	if !d.Digest.IsZero() {
		s += "(" + d.Digest.String()[:12] + ") "
	}
	if s += d.Text; d.Repaired {
		s += "; repaired"
	}
	return s + "\n"
}

// verifyText describes the progress in one line.
func verifyText(v store.Verified) string {
	s := fmt.Sprintf("%d records; %d packages, %s", v.Records, v.Kept.Blobs, modproxy.SizeText(v.Kept.Bytes))
	if v.Read > 0 && v.Seconds > 0 {
		s += fmt.Sprintf("; read %s of %s, %.0f MB/s", modproxy.SizeText(v.Read), modproxy.SizeText(v.Total), float64(v.Read)/1e6/v.Seconds)
	}
	if v.Superseded > 0 {
		s += fmt.Sprintf("; %d superseded", v.Superseded)
	}
	if v.Orphans.Blobs > 0 {
		s += fmt.Sprintf("; %d packages without a record, %s", v.Orphans.Blobs, modproxy.SizeText(v.Orphans.Bytes))
	}
	s += fmt.Sprintf("; damage: %d", v.Damage)
	if v.Repaired > 0 {
		s += fmt.Sprintf(" (repaired: %d)", v.Repaired)
	}
	return s
}

func newRebuildCommand(env *environment) *cobra.Command {
	return withJSON(withKeys(&cobra.Command{
		Use:   "rebuild",
		Short: "Create a new index if the old one is lost or damaged",
		Long: `Create a new index from the packages and the ledger. The packages are read and
checked; the ledger names their versions. Lists of versions are copied from the
old index as far as it can be read. The old index and damaged packages are moved
to the directory quarantine. The ledger stays unchanged.

modproxy must not be serving from the data directory.`,
		Example: "  modproxy rebuild --data /var/lib/modproxy",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return env.alone(cmd.Context(), func(c *config.Config) error { return env.rebuild(cmd.Context(), c) })
		},
	}, "data"), `"kind", "module", "version", "text", …`, `"problem", "kept", "versions", …`)
}

func (env *environment) rebuild(ctx context.Context, c *config.Config) error {
	out, err := app.Rebuild(ctx, c)
	if err != nil {
		return err
	}
	text := cmp.Or(out.Problem, "modproxy could open the old index")
	if out.Aside != "" {
		text += "; it is now " + out.Aside
	}
	text += "\n"
	for _, damage := range out.Damaged {
		text += damageText(&damage)
		if err := env.item(damage, ""); err != nil {
			return err
		}
	}
	if out.Left > 0 {
		text += fmt.Sprintf("left out of the old index, because they are damaged: %s\n", count(out.Left, "record"))
	}
	text += fmt.Sprintf("the new index has %d packages and %d lists of versions; %d packages are of no version in the ledger\n",
		out.Kept.Blobs, out.Lists, out.Orphans.Blobs)
	out.Damaged = nil // the items list them
	return env.end(out, text)
}
