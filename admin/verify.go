package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// Verify says how to look for damage.
type Verify struct {
	ReadData bool `json:"read_data,omitempty"`
	Repair   bool `json:"repair,omitempty"`
}

// Damage is something that is wrong.
type Damage struct {
	Module  string `json:"module,omitempty"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"` // SHA-256 of the package
	store.Damage
}

// DamageOf describes d for people and programs.
func DamageOf(d store.Damage) Damage {
	out := Damage{Damage: d}
	if v, ok := cache.VersionOf(d.Ref); ok {
		out.Module, out.Version = v.Module.String(), v.Version
	} else if d.Ref.Key != "" {
		out.Module = d.Ref.Key
	}
	if !d.Digest.IsZero() {
		out.Digest = d.Digest.String()
	}
	return out
}

// OfLedger reports whether the ledger is damaged, which is not repaired.
func (d *Damage) OfLedger() bool { return d.Kind == ledgerDamaged || d.Kind == ledgerMissing }

// Damage of the ledger, beside the kinds of package store.
const (
	ledgerDamaged store.DamageKind = "ledger_damaged" // it is not what was written, or not what the modproxy that serves has open
	ledgerMissing store.DamageKind = "ledger_missing" // packages are kept, and there is none, or one without records
)

// VerifyLine is a line of the answer; one field is set. The last line has Done.
type VerifyLine struct {
	Damage   *Damage         `json:"damage,omitempty"`
	Progress *store.Verified `json:"progress,omitempty"`
	Done     *store.Verified `json:"done,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) error {
	var in Verify
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	stream(w, func(write func(any)) {
		ledger := s.checkLedger(r.Context())
		add := func(v store.Verified) *store.Verified {
			if ledger != nil {
				v.Damage++
			}
			return &v
		}
		if ledger != nil {
			write(VerifyLine{Damage: &Damage{Damage: *ledger}})
		}
		out, err := s.Store.Verify(r.Context(), store.Check{
			Data: in.ReadData, Repair: in.Repair,
			Found: func(d store.Damage) {
				out := DamageOf(d)
				write(VerifyLine{Damage: &out})
			},
			Progress: func(v store.Verified) { write(VerifyLine{Progress: add(v)}) },
		})
		if err != nil {
			write(VerifyLine{Error: err.Error()})
			return
		}
		write(VerifyLine{Done: add(out)})
	})
	return nil
}

// checkLedger returns what is wrong with the ledger as a whole, or nil.
func (s *Server) checkLedger(ctx context.Context) *store.Damage {
	err := s.Damage
	if err == nil && s.Ledger != nil {
		err = s.Ledger.Verify()
	}
	switch {
	case errors.Is(err, ledger.ErrDamaged):
		return &store.Damage{Kind: ledgerDamaged, Text: err.Error()}
	case err != nil:
		return &store.Damage{Kind: store.Unreadable, Text: "the ledger: " + err.Error()}
	case s.Ledger != nil && s.Ledger.Tree().N > 0:
		return nil
	}
	for range s.Store.Records.List(ctx, cache.PackageKind, "") {
		return &store.Damage{Kind: ledgerMissing, Text: ErrNoLedger.Error() + ": " + strings.Join(NoLedgerHints, ", ")}
	}
	return nil
}

// ErrNoLedger is the error where packages are kept beside a ledger without records:
// to go on would accept any content for them.
var ErrNoLedger = errors.New("the ledger is missing, or has no record, but packages are kept beside it")

// NoLedgerHints say what to do about [ErrNoLedger].
var NoLedgerHints = []string{
	"put its backup back",
	`or import an export of it: "modproxy ledger import FILE --key KEY"`,
	`or begin one with what the kept packages are: "modproxy ledger init"`,
}

// Verify looks for damage, and calls each with every line of the answer.
func (c *Client) Verify(ctx context.Context, in Verify, each func(VerifyLine) error) error {
	return readStream(ctx, c, "POST", "packages/verify", in, func(line VerifyLine) (bool, error) {
		if line.Error != "" {
			return true, fmt.Errorf("verify: %s", line.Error)
		}
		return line.Done != nil, each(line)
	})
}
