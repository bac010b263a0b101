package cache

import (
	"time"

	"github.com/modproxy/modproxy"
)

// Kind says what an [Event] tells. It is fit for the name of a metric's label.
type Kind string

const (
	VersionsAsked   Kind = "versions_asked"   // Next was asked; Duration, Err
	LocationAsked   Kind = "location_asked"   // Next was asked; Duration, Err
	FetchStarted    Kind = "fetch_started"    // after the fetch had its turn
	FetchEnded      Kind = "fetch_ended"      // Duration, Bytes, Err
	StaleServed     Kind = "stale_served"     // a versions document older than Fresh was served
	VersionDropped  Kind = "version_dropped"  // upstream does not list a version whose package is kept
	VersionListed   Kind = "version_listed"   // upstream lists such a version again
	VersionsTrimmed Kind = "versions_gone"    // versions documents were removed to keep to MaxVersions; Bytes
	LedgerDisagrees Kind = "ledger_disagrees" // a kept package is not what the ledger says, and is not served; Err
	LedgerBehind    Kind = "ledger_behind"    // the ledger did not know a kept package, and does now; Err
	StoreFailed     Kind = "index_failed"     // an answer was served but could not be kept or read; Err
)

// Event is something that happened in a [Registry]. Fields that its Kind does not mention are zero.
type Event struct {
	Kind     Kind
	Module   modproxy.Module
	Version  string // empty for questions about versions
	Duration time.Duration
	Bytes    int64
	Err      error // nil: it went well
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}
