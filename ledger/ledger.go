// Package ledger remembers what each version of a module was first seen to be.
//
// Invariant: what was added is never changed and never forgotten. A version has
// the sum with which it was first added until somebody accepts another one and
// says why, which is a record of its own after the first; nothing is edited,
// nothing is removed. A ledger is not a cache: it is trusted, and whoever can
// change it can change what a version is.
//
// The records are the leaves of a transparency log, as golang.org/x/mod/sumdb
// defines it, under keys that are Go module paths and versions (see [Key]). A
// [Log] keeps them in a directory. sumdb.NewServer serves it by
// [Log.ServerOps], and the client that the go command has checks a lookup, that
// its record is in the tree, and that no later tree forgets an earlier one. What a Log cannot see by itself is that its whole directory was
// replaced by an older copy of it; a client that has seen a later tree does.
//
// [Registry] is the layer that holds packages to the ledger.
package ledger

import (
	"errors"
	"iter"
	"time"

	"github.com/modproxy/modproxy"
)

// Ledger is what a [Registry] asks and tells. Its methods are safe for
// concurrent use. What was added, accepted or told is durable when the method
// returns nil; after another error it may or may not be there. Package
// ledgertest has the suite that every implementation passes.
//
// Errors are [modproxy.ErrInvalid] for what cannot be written down,
// [modproxy.ErrUnavailable] when the storage fails, and those that the methods
// name.
type Ledger interface {
	// Lookup is the record that counts for a version: the first one, or the one
	// last accepted. There being none is [fs.ErrNotExist].
	Lookup(m modproxy.Module, version string) (Record, error)
	// Add records the first sight of a version; r has no Reason. A version whose
	// record has the same Sum and Subdir keeps that record. Others are
	// [modproxy.ErrChanged], and nothing is added. Of several that add the same
	// version at once, one does.
	Add(r Record) error
	// Accept records that a version is from now on what r says; r has a Reason.
	// There being no record of the version is [fs.ErrNotExist]. A record that
	// counts already, by its Sum and Subdir, stays as it is.
	Accept(r Record) error
	// All yields every record in the order in which they were added, those that
	// no longer count among them, as of when the sequence begins. The source and
	// the commit of a record are what it takes to fetch the content again. An
	// error ends the sequence.
	All() iter.Seq2[Record, error]
	// Drift keeps an observation that is not kept yet: of the same version, the
	// same recorded and the same offered sum, the first one stays. There being no
	// record of the version is [fs.ErrNotExist].
	Drift(d Drift) error
	// Drifts yields every observation, as All does.
	Drifts() iter.Seq2[Drift, error]
}

// Record says what a version is.
type Record = modproxy.Record

// Drift is content that was offered for a version and is not what is recorded.
type Drift struct {
	Module   modproxy.Module
	Version  string          // canonical
	Recorded modproxy.Sum    // what counted then
	Offered  modproxy.Sum    // Recorded, when only the directory is known to be another
	Subdir   string          // the directory that was offered, as in Record, when it is not the one that counted; else empty
	Source   modproxy.Source // where the offered content came from; may be zero
	Time     time.Time       // when it was offered; not zero
}

// MaxDrifts is how many different observations of one version are kept: an
// upstream that answers something else every time does not fill the storage. One
// more is [modproxy.ErrUnavailable].
const MaxDrifts = 64

// ErrDamaged: a ledger is not what was written. Its text names the remedy. A
// damaged ledger is never opened as an empty one, nor as a part of what it was.
var ErrDamaged = errors.New("the ledger is damaged")

var _ Ledger = (*Log)(nil)
