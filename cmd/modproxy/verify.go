package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache/disk"
	"github.com/modproxy/modproxy/internal/hint"
	"github.com/modproxy/modproxy/pack"
)

// verifyLimits bound what verifying takes for a package. They are far above what
// fetching allows, which may have been lowered since.
var verifyLimits = pack.Limits{Entries: 10_000_000, Bytes: 1 << 42, Packed: 1 << 42}

// verifying is what "modproxy verify" asks for, and verifyLine a line of what it
// is told.
type (
	verifying struct {
		ReadData bool `json:"read_data,omitempty"`
		Repair   bool `json:"repair,omitempty"`
	}
	verifyLine struct {
		Damage   *damage   `json:"damage,omitempty"`
		Progress *verified `json:"progress,omitempty"`
		Done     *verified `json:"done,omitempty"`
		Error    string    `json:"error,omitempty"`
	}
	verified struct {
		disk.Verified
		Superseded int `json:"superseded,omitempty"` // records of what was kept before something else was accepted, which is no damage
	}
	damage struct {
		Module string `json:"module,omitempty"`
		Digest string `json:"digest,omitempty"` // SHA-256 of the package
		disk.Damage
	}
)

func (d damage) String() string {
	s := string(d.Kind) + ": "
	if d.Module != "" {
		s += d.Module + " "
	}
	if d.Version != "" {
		s += d.Version + " "
	}
	if d.Digest != "" {
		s += "(" + d.Digest[:12] + ") "
	}
	if s += d.Text; d.Repaired {
		s += "; repaired"
	}
	return s
}

func describeDamage(d disk.Damage) *damage {
	out := &damage{Damage: d}
	if d.Module != (modproxy.Module{}) {
		out.Module = d.Module.String()
	}
	if !d.Digest.IsZero() {
		out.Digest = d.Digest.String()
	}
	return out
}

func (s *storage) verify(w http.ResponseWriter, r *http.Request) error {
	var in verifying
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		ledger, old := 0, 0
		add := func(v disk.Verified) *verified {
			v.Damage += ledger - old
			return &verified{v, old}
		}
		superseded := s.superseded()
		check := disk.Check{
			Data: in.ReadData, Repair: in.Repair,
			Retire: func(d modproxy.Digest, take func() (bool, error)) error {
				return s.cache.Retire(r.Context(), d, take)
			},
			Sum: func(r io.Reader) (modproxy.Sum, error) { return pack.Verify(r, verifyLimits) },
			Found: func(d disk.Damage) {
				if d.Kind == disk.PinDiffers && superseded(d.Module, d.Version) {
					old++
					return
				}
				write(verifyLine{Damage: describeDamage(d)})
			},
			Progress: func(v disk.Verified) { write(verifyLine{Progress: add(v)}) },
		}
		if s.recorded() {
			check.Pinned = s.pinned
		}
		if d := s.checkLedger(); d != nil {
			ledger = 1
			write(verifyLine{Damage: d})
		}
		out, err := s.store.Verify(r.Context(), check)
		if err != nil {
			write(verifyLine{Error: err.Error()})
			return
		}
		write(verifyLine{Done: add(out)})
	})
	return nil
}

func newVerifyCommand(env *environment) *cobra.Command {
	var in verifying
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check everything that is kept for damage",
		Long: `Compare the index, the copies of its records, the packages and the ledger, and print
everything that is wrong. --read-data also reads every package: its bytes must match
the digest in its record, and its content the sum. Nothing is changed without
--repair.

Exit code 0 means that nothing is wrong, or that everything was repaired; 1 means
that something is wrong.`,
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := env.settings()
			if err != nil {
				return err
			}
			return withAPI(cmd.Context(), c, openStorage, func(a *api) error { return env.verify(cmd, a, in, asJSON) })
		},
	}
	cmd.Flags().BoolVar(&in.ReadData, "read-data", false, "also read every package")
	cmd.Flags().BoolVar(&in.Repair, "repair", false, "set damaged packages aside, to be fetched again; make records from their copies, and copies from records")
	cmd.Flags().BoolVar(&asJSON, "json", false, `print JSON, one damage in a line: {"damage": {"kind": …, "module": …, "version": …, "text": …}}, and {"done": …} in the last`)
	return cmd
}

func (env *environment) verify(cmd *cobra.Command, a *api, in verifying, asJSON bool) error {
	progress := newProgress(env.stderr)
	defer progress.end()
	out := json.NewEncoder(env.stdout)
	out.SetEscapeHTML(false)
	var done *verified
	ledger := 0
	err := readStream(cmd.Context(), a, "POST", "/-/api/packages/verify", in, func(line verifyLine) error {
		switch {
		case line.Error != "":
			return fmt.Errorf("verify: %s", line.Error)
		case line.Progress != nil:
			progress.show(verifyText(*line.Progress))
			return nil
		case line.Done != nil:
			done = line.Done
		case line.Damage != nil && (line.Damage.Kind == ledgerDamaged || line.Damage.Kind == ledgerMissing):
			ledger++
		}
		if asJSON {
			return out.Encode(line)
		}
		progress.clear()
		if line.Damage != nil {
			_, err := fmt.Fprintln(env.stdout, line.Damage)
			return err
		}
		return nil
	})
	if err == nil && done == nil {
		err = errCut
	}
	if err != nil {
		return err
	}
	progress.end()
	if !asJSON {
		if _, err := fmt.Fprintln(env.stdout, verifyText(*done)); err != nil {
			return err
		}
	}
	if left := done.Damage - done.Repaired; left > 0 {
		var hints []string
		if ledger > 0 {
			hints = append(hints, "put the backup of the directory \"ledger\" back; --repair does not mend the ledger")
		}
		if left > ledger {
			hints = append(hints, `"modproxy verify --read-data --repair" sets damaged packages aside, to be fetched again, and mends records`)
		}
		return hint.With(fmt.Errorf("damage found: %d", left), hints...)
	}
	return nil
}

// verifyText says what was looked at so far.
func verifyText(v verified) string {
	s := fmt.Sprintf("%d of %d records; %d packages, %s", v.Records, v.Total, v.Packages.Packages, sizeText(v.Packages.Bytes))
	if v.Read > 0 && v.Seconds > 0 {
		s += fmt.Sprintf("; read %s, %.0f MB/s", sizeText(v.Read), float64(v.Read)/1e6/v.Seconds)
	}
	if v.Evicted > 0 {
		s += fmt.Sprintf("; %d evicted", v.Evicted)
	}
	if v.Superseded > 0 {
		s += fmt.Sprintf("; %d superseded", v.Superseded)
	}
	if v.Orphans.Packages > 0 {
		s += fmt.Sprintf("; %d packages without a record, %s", v.Orphans.Packages, sizeText(v.Orphans.Bytes))
	}
	s += fmt.Sprintf("; damage: %d", v.Damage)
	if v.Repaired > 0 {
		s += fmt.Sprintf(", of which repaired: %d", v.Repaired)
	}
	return s
}

// progress shows how far something long has come: on a terminal in one line that
// changes, elsewhere in a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	shown    time.Time
	open     bool // a line that changes is on the screen
}

// progressPause is between lines where there is no terminal.
const progressPause = 10 * time.Second

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, shown: time.Now()}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(text string) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r\x1b[K%s", text)
		p.open = true
	case time.Since(p.shown) >= progressPause:
		fmt.Fprintln(p.w, text)
		p.shown = time.Now()
	}
}

// clear makes room for another line; end for good.
func (p *progress) clear() {
	if p.open {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.open = false
	}
}

func (p *progress) end() { p.clear() }
