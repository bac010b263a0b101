package app

import (
	"context"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
)

// A DecidedLedger reads the ledger of a data directory under the decisions in it. It does not apply the rules of the policy,
// because they are not in the directory.
type DecidedLedger struct {
	*ledger.Log
	gate *policy.Gate
}

// OpenLedger opens the ledger of a data directory for reading. Another process may write it at the same time. The caller closes
// it.
func OpenLedger(c *config.Config) (*DecidedLedger, error) {
	ledgerLog, err := ledger.OpenReadOnly(c.LedgerDir())
	return &DecidedLedger{ledgerLog, policy.NewGate(ledgerLog, nil)}, err
}

// Lookup returns the record that counts for a version. If a decision denies the version, the error is the denial.
func (l *DecidedLedger) Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if err := l.gate.Check(ctx, v); err != nil {
		return modproxy.Record{}, err
	}
	return l.Log.Lookup(ctx, v)
}

// Deprecation returns the message for users of a deprecated version, or an empty string.
func (l *DecidedLedger) Deprecation(ctx context.Context, v modproxy.Ref) string {
	decided, err := l.gate.Decisions(ctx, v)
	if err != nil || decided.Deprecation == nil {
		return ""
	}
	return decided.Deprecation.Deprecation()
}
