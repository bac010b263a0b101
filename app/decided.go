package app

import (
	"context"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
)

// DecidedLedger is the ledger of a data directory, for reading, with the decisions that are in it. The rules of the
// policy are not: for those who only have the directory they are not known.
type DecidedLedger struct {
	*ledger.Log
	gate *policy.Gate
}

// OpenLedger opens the ledger of a data directory for reading, whatever another process does. The caller closes it.
func OpenLedger(c *config.Config) (*DecidedLedger, error) {
	book, err := ledger.OpenReadOnly(c.LedgerDir())
	return &DecidedLedger{book, policy.NewGate(book, nil)}, err
}

// Lookup returns the record that counts for a version, or its refusal.
func (l *DecidedLedger) Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if err := l.gate.Check(ctx, v); err != nil {
		return modproxy.Record{}, err
	}
	return l.Log.Lookup(ctx, v)
}

// Deprecation returns what users of a version are told, or an empty string.
func (l *DecidedLedger) Deprecation(ctx context.Context, v modproxy.Ref) string {
	decided, err := l.gate.Decisions(ctx, v)
	if err != nil || decided.Deprecation == nil {
		return ""
	}
	return decided.Deprecation.Deprecation()
}
