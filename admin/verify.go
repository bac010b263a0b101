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

// A VerifyRequest selects how the store is verified. For ReadData and Repair, see Data and Repair of [store.Check].
type VerifyRequest struct {
	ReadData bool `json:"read_data,omitempty"`
	Repair   bool `json:"repair,omitempty"`
}

// Damage is one finding of a verification.
type Damage struct {
	versionname.Name
	store.Damage
}

// DamageOf returns d with the name of its version.
func DamageOf(d store.Damage) Damage {
	if v, ok := cache.VersionOf(d.Ref); ok {
		return Damage{versionname.Of(v), d}
	}
	return Damage{versionname.Name{Module: strings.TrimSuffix(d.Ref.Key, "/")}, d} // keys of providers end with a slash
}

// OfLedger reports whether d is damage of the ledger. Damage of the ledger is not repaired.
func (d *Damage) OfLedger() bool { return d.Kind == ledgerDamaged || d.Kind == ledgerMissing }

// The kinds of damage of the ledger, in addition to those of package store.
const (
	ledgerDamaged store.DamageKind = "ledger_damaged" // its content is not what was written, or not what the serving process has open
	ledgerMissing store.DamageKind = "ledger_missing" // packages are stored, but the ledger does not exist or has no records
)

// A VerifyLine is a part of the answer. One field is set.
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

// checkLedger returns the damage of the ledger as a whole, or nil.
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

// ErrNoLedger is the error if packages are stored but the ledger has no records. A start would then accept any content for them.
var ErrNoLedger = errors.New("the ledger is missing, or has no record, but packages are stored")

// NoLedgerHints are the remedies for [ErrNoLedger].
var NoLedgerHints = []string{
	"restore its backup",
	`or import an export of it: "modproxy ledger import FILE --key KEY"`,
	`or create one from the stored packages: "modproxy ledger init"`,
}
