// Package ledger records what each version of a module was when it was first seen.
//
// Invariant: what was added is never changed and never forgotten. A version has the sum with which it was first added
// until an operator accepts another one and gives a reason. The acceptance is a record of its own, after the first. Addresses that
// differ in case only are one address: no spelling has content that another one is refused. A
// ledger is not a cache: it is trusted, and a program or person who can change it can change what a version is.
//
// The records are the leaves of a transparency log, as golang.org/x/mod/sumdb defines it, under keys that are Go module
// paths and versions (see [Key]). A [Log] keeps them in a directory, and sumdb.NewServer serves it by [Log.ServerOps].
// That the whole directory was replaced by an older copy only a sumdb client can see that has seen a later tree.
//
// Records come to another ledger in three ways. [Log.Import] makes the same tree, under another key, of an export of it. A
// bundle (package bundle) brings facts of another ledger, which are added to a tree of its own. A lock file (package lock)
// has sums to compare with.
//
// [Registry] is the layer that compares packages with the ledger, and [Recheck] asks upstream whether tags have moved.
package ledger

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Ledger keeps records. Its methods are safe for concurrent use. What was added, accepted or observed is durable when the
// method returns nil; after an error it may or may not be there. Every implementation passes the suite in ledgertest.
//
// Errors are [modproxy.ErrInvalid] for what cannot be written down, [modproxy.ErrUnavailable] when the storage fails,
// those of the context, and those that the methods name.
type Ledger interface {
	// Lookup returns the record that counts for a version, which is the first or was accepted last, or [fs.ErrNotExist]. It may be
	// about another spelling of the address; then there is none of this spelling that says the same.
	Lookup(ctx context.Context, v modproxy.Ref) (Record, error)
	// Add records the first sight of a version; r has no Reason. A version whose record has the same Sum and Subdir
	// keeps that record. When it has others, or another spelling of its address does, the error is [modproxy.ErrChanged], and nothing
	// is added.
	Add(ctx context.Context, r Record) error
	// Accept records that a version, in every spelling that has a record, is from now on what r says; r has a Reason. The error is
	// [fs.ErrNotExist] when there is no such record. A record that counts already, by its Sum and Subdir, stays as it is.
	Accept(ctx context.Context, r Record) error
	// Had reports whether a record of a version, in any spelling, whether it counts or not, has this sum.
	Had(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) (bool, error)
	// All yields every record in the order in which they were added, as of when the sequence begins. Records that no
	// longer count are among them. An error ends the sequence.
	All(ctx context.Context) iter.Seq2[Record, error]
	// Of yields the last record of each version of a module in this spelling, that of the version that was added last first.
	// An error ends the sequence.
	Of(ctx context.Context, m modproxy.Address) iter.Seq2[Record, error]
	// AddDrift keeps an observation. Of those of the same version with the same Recorded, Offered and Subdir the first one
	// stays. The error is [fs.ErrNotExist] when there is no record of the version.
	AddDrift(ctx context.Context, d Drift) error
	// Drifts yields every observation, as All does, and as one each record that contradicts another spelling of its address.
	Drifts(ctx context.Context) iter.Seq2[Drift, error]
	// Decide keeps a decision.
	Decide(ctx context.Context, d modproxy.Decision) error
	// Decisions returns the decisions from a position on, in the order in which they were made, and the position behind
	// them. Zero is the position of the first one.
	Decisions(ctx context.Context, from int64) (list []modproxy.Decision, next int64, err error)
}

// Record says what a version is.
type Record = modproxy.Record

// Drift is content that was offered for a version and is not what is recorded.
type Drift struct {
	modproxy.Ref `json:"-"`

	Recorded       modproxy.Sum    `json:"recorded"`         // what counted then
	Offered        modproxy.Sum    `json:"offered"`          // Recorded, when only the directory is known to be another
	Subdir         string          `json:"subdir,omitempty"` // offered, as in Record, if it is not the one that counted; else empty
	Source         modproxy.Source `json:"source,omitzero"`  // where the offered content came from; may be zero
	Time           time.Time       `json:"time"`             // when it was offered; not zero
	modproxy.Facts                 // offered
}

// MaxDrifts is how many different observations of one version are kept: an upstream that answers something else every
// time does not fill the storage. The error for one more is [modproxy.ErrUnavailable].
const MaxDrifts = 64

// ErrDamaged means that a ledger is not what was written. It is not opened. The text of the error names the remedy.
var ErrDamaged = errors.New("the ledger is damaged")

// ErrNotCreated means that a ledger has no files, or only those of a creation that was interrupted. [Open] creates it.
var ErrNotCreated = errors.New("the ledger has no record, and was not created completely; the next start of modproxy serve creates it")

var _ Ledger = (*Log)(nil)
