// Package ledger records the content of each version in a signed, append-only log.
//
// A record states the content of a version; package store has other records. [Open] opens a [Log], which is a [Ledger] in a
// directory. [Registry] is the layer that compares packages with the ledger. [Recheck] polls the registries for moved tags.
//
//	log, err := ledger.Open(dir)
//	reg := &ledger.Registry{Next: upstream, Ledger: log}
//
// Invariants:
//
//   - A record is never changed and never removed.
//   - A version has the sum of its first record until an operator accepts another sum and gives a reason. The acceptance is
//     a further record.
//   - Addresses that differ only in case are one address: all spellings have the same content.
//   - A ledger is not a cache. It is trusted: a program or person that can change the ledger can change the content of
//     versions.
//
// The records are the leaves of a transparency log, as golang.org/x/mod/sumdb defines it, under keys that are Go module paths
// and versions (see [Key]). sumdb.NewServer serves a log by [Log.ServerOps]. If the whole directory is replaced by an older
// copy, only a sumdb client that has seen a later tree can notice it.
//
// There are three ways to transfer records to another ledger. [Log.Import] reproduces the same tree from an export, under
// another key. A bundle (package bundle) contains facts of another ledger, which are added to the importing ledger's own tree.
// A lock file (package lock) contains sums to compare with.
//
// The suite in ledgertest specifies the behaviour of every [Ledger]. [FormatRecord], [FormatDrift], [FormatDecision], [FormatBundle]
// and [FormatOwnHost] specify the texts.
package ledger

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Ledger stores records. Its methods are safe for concurrent use. When a method that adds something returns nil, the addition
// is durable. After an error it may or may not be stored. Every implementation passes the suite in ledgertest.
//
// Errors are [modproxy.ErrInvalid] for values that cannot be recorded, [modproxy.ErrUnavailable] if the storage fails, the
// errors of the context, and those that the methods name.
type Ledger interface {
	// Lookup returns the record that counts for a version: the one that was accepted last, or else the first. Without a record
	// the error is [fs.ErrNotExist]. If the record is of another spelling of the address, no record of the requested spelling
	// has the same content.
	Lookup(ctx context.Context, v modproxy.Ref) (Record, error)
	// Add adds the first record of a version; r has no Reason. If the version already has a record with the same Sum and
	// Subdir, that record stays. If the record has another Sum or Subdir, or another spelling of the address has, Add adds
	// nothing and the error is [modproxy.ErrChanged].
	Add(ctx context.Context, r Record) error
	// Accept replaces the content of a version, in every spelling that has a record, by that of r; r has a Reason. If no
	// spelling has a record, the error is [fs.ErrNotExist]. A spelling whose record has the same Sum and Subdir is left as it
	// is.
	Accept(ctx context.Context, r Record) error
	// Had reports whether any record of a version, in any spelling, current or superseded, has this sum.
	Had(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) (bool, error)
	// All yields every record in the order of addition, as of the beginning of the sequence. It includes records that no
	// longer count. An error ends the sequence.
	All(ctx context.Context) iter.Seq2[Record, error]
	// Of yields the last record of each version of a module in this spelling, beginning with the version that was added last.
	// An error ends the sequence.
	Of(ctx context.Context, m modproxy.Address) iter.Seq2[Record, error]
	// AddDrift records an observation. Of several observations of a version with equal Recorded, Offered and Subdir, only the
	// first is stored. If the version has no record, the error is [fs.ErrNotExist].
	AddDrift(ctx context.Context, d Drift) error
	// Drifts yields every observation, like All. Each record that contradicts another spelling of its address also appears as
	// one.
	Drifts(ctx context.Context) iter.Seq2[Drift, error]
	// Decide records a decision.
	Decide(ctx context.Context, d modproxy.Decision) error
	// Decisions returns the decisions from a position on, in the order of addition, and the position after the last one. The
	// first decision has position 0.
	Decisions(ctx context.Context, from int64) (list []modproxy.Decision, next int64, err error)
}

// Record is the recorded content of a version.
type Record = modproxy.Record

// Drift is an observation that an upstream offered other content for a version than the recorded one.
type Drift struct {
	modproxy.Ref `json:"-"`

	Recorded               modproxy.Sum    `json:"recorded"`         // the sum that counted at that time
	Offered                modproxy.Sum    `json:"offered"`          // equals Recorded if only the directory is known to differ
	Subdir                 string          `json:"subdir,omitempty"` // the offered directory, as in Record; empty unless it differs from the recorded one
	Source                 modproxy.Source `json:"source,omitzero"`  // of the offered content; may be zero
	Time                   time.Time       `json:"time"`             // of the offer; not zero
	modproxy.ProviderFacts                 // of the offered content
}

// MaxDrifts is the maximum number of different observations of one version. It keeps an upstream that answers differently every
// time from filling the storage. The error for one more is [modproxy.ErrUnavailable].
const MaxDrifts = 64

// ErrDamaged means that a ledger differs from what was written. Such a ledger is not opened. The text of the error names the
// remedy.
var ErrDamaged = errors.New("the ledger is damaged")

// ErrNotCreated means that a ledger has no files, or only those of an interrupted creation. [Open] creates it.
var ErrNotCreated = errors.New("the ledger has no record, and was not created completely; the next start of modproxy serve creates it")

var _ Ledger = (*Log)(nil)
