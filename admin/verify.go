package admin

import (
	"context"
	"errors"
	"strings"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/internal/versionname"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
)

// VerifyRequest says how to look for damage.
type VerifyRequest struct {
	ReadData bool `json:"read_data,omitempty"`
	Repair   bool `json:"repair,omitempty"`
}

// Damage is something that is wrong.
type Damage struct {
	versionname.Name
	store.Damage
}

// DamageOf describes d for people and programs.
func DamageOf(d store.Damage) Damage {
	if v, ok := cache.VersionOf(d.Ref); ok {
		return Damage{versionname.Of(v), d}
	}
	return Damage{versionname.Name{Module: strings.TrimSuffix(d.Ref.Key, "/")}, d} // which a provider's ends with
}

// OfLedger reports whether the ledger is damaged, which is not repaired.
func (d *Damage) OfLedger() bool { return d.Kind == ledgerDamaged || d.Kind == ledgerMissing }

// Damage of the ledger, beside the kinds of package store.
const (
	ledgerDamaged store.DamageKind = "ledger_damaged" // it is not what was written, or not what the modproxy that serves has open
	ledgerMissing store.DamageKind = "ledger_missing" // packages are kept, and there is none, or one without records
)

// VerifyLine is a part of the answer; one field is set.
type VerifyLine struct {
	Damage   *Damage         `json:"damage,omitempty"`
	Progress *store.Verified `json:"progress,omitempty"`
}

func (s *Server) verify(ctx context.Context, in VerifyRequest, each func(VerifyLine)) (store.Verified, error) {
	ofLedger := 0
	if d := s.checkLedger(ctx); d != nil {
		ofLedger = 1
		each(VerifyLine{Damage: &Damage{Damage: *d}})
	}
	out, err := s.Store.Verify(ctx, store.Check{
		Data: in.ReadData, Repair: in.Repair,
		Found: func(d store.Damage) {
			out := DamageOf(d)
			each(VerifyLine{Damage: &out})
		},
		Progress: func(v store.Verified) {
			v.Damage += ofLedger
			each(VerifyLine{Progress: &v})
		},
	})
	out.Damage += ofLedger
	return out, err
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
	case s.Ledger != nil && s.Ledger.HasRecords():
		return nil
	}
	for range s.Store.Records.List(ctx, cache.PackageKind, "") {
		return &store.Damage{Kind: ledgerMissing, Text: ErrNoLedger.Error() + ": " + strings.Join(NoLedgerHints, ", ")}
	}
	return nil
}

// ErrNoLedger is that packages are kept beside a ledger without records: to go on would accept any content for them.
var ErrNoLedger = errors.New("the ledger is missing, or has no record, but packages are kept beside it")

// NoLedgerHints say what to do about [ErrNoLedger].
var NoLedgerHints = []string{
	"put its backup back",
	`or import an export of it: "modproxy ledger import FILE --key KEY"`,
	`or begin one with what the kept packages are: "modproxy ledger init"`,
}
