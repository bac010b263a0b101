package modproxy

import "time"

// Record says what one version of a module is: what it was when it was first seen, or what an operator has accepted since.
// The ledger is the one home of these facts.
type Record struct {
	ModuleVersion `json:"-"`

	Sum    Sum       `json:"sum"`
	Subdir string    `json:"subdir,omitempty"` // the module's directory in the package; "." for all of it, empty if not recorded
	Source Source    `json:"source,omitzero"`  // where the content came from; may be zero
	Time   time.Time `json:"time"`             // when it was first seen, or accepted; not zero
	Reason string    `json:"reason,omitempty"` // why it was accepted, one line of at most 1,024 bytes; empty for the first sight
}

// Is reports whether a package with that sum and subdir is what r says. An empty subdir is the whole package, as in the
// Subdir of a [Location].
func (r Record) Is(sum Sum, subdir string) bool {
	if subdir == "" {
		subdir = "."
	}
	return r.Sum == sum && (r.Subdir == "" || r.Subdir == subdir)
}
