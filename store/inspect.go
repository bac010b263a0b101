package store

import (
	"context"
	"errors"
	"slices"
)

// inspect inspects the storage of the records, if that is possible. It reports whether the storage returns its records
// as they were stored.
func (v *verification) inspect(ctx context.Context) (sound bool, err error) {
	inspector, ok := v.Records.(Inspector)
	if !ok {
		return true, nil
	}
	found, err := inspector.Inspect(ctx)
	if err != nil {
		return false, err
	}
	v.lost = found.Lost
	if found.Damage != nil {
		v.report(Damage{Kind: DamagedIndex, Text: found.Damage.Error()}, nil)
	}
	return found.Damage == nil, nil
}

// reportLost reports lost records. Data and Repair have restored them before, if the ledger contains their packages.
func (v *verification) reportLost(ctx context.Context) {
	for _, loss := range v.lost {
		r, err := v.Records.Get(ctx, loss.Ref)
		isThere := err == nil && slices.Contains(r.Needs, loss.Digest)
		text, mends := "the index has lost the record of this package", v.asked.Data
		if loss.Present {
			text, mends = "the index does not list this package as needed", true
		}
		switch {
		case errors.Is(err, ErrDamaged): // reported already
			continue
		case isThere != loss.Present && !(isThere && v.asked.Data && v.asked.Repair): // changed since the inspection
			continue
		}
		var repair func() error
		if mends {
			repair = func() error { return v.Records.(Inspector).Mend(ctx, []Loss{loss}) }
		}
		v.report(Damage{Kind: LostRecord, Ref: loss.Ref, Digest: loss.Digest, Text: text}, repair)
	}
}
