package modproxy

import (
	"strings"
	"time"
)

// Action is what an operator decides about versions of a module. It is fit for a word of a text.
type Action string

const (
	Approve   Action = "approve"   // they may be used where a rule wants approval, and before they have the minimum age
	Reject    Action = "reject"    // they may not be used; ends what was approved
	Block     Action = "block"     // they may not be used, whatever else is decided
	Unblock   Action = "unblock"   // ends a block of the same versions
	Deprecate Action = "deprecate" // they should no longer be used; an empty Reason ends it
)

// Decision is an operator's decision about versions of a module, or of all modules that a glob matches. The ledger is the home of
// decisions. A later decision replaces earlier ones of its kind about the same Versions, for the modules that both are about.
type Decision struct {
	Address  `json:"-"` // or a glob: its segments are in lower case then, and * matches any part of one
	Action   Action     `json:"action"`
	Versions string     `json:"versions,omitempty"` // a version constraint; empty for every version
	By       string     `json:"by"`                 // who decided, one line
	Time     time.Time  `json:"time"`               // when; not zero
	Until    time.Time  `json:"until,omitzero"`     // when an approval ends; zero for never
	Reason   string     `json:"reason,omitempty"`   // why, one line of at most 1,024 bytes
	Link     string     `json:"link,omitempty"`     // where users of what is deprecated read more, an https URL
}

// IsGlob reports whether d is about all modules that a glob matches.
func (d *Decision) IsGlob() bool { return strings.Contains(d.Address.String(), "*") }

// Deprecation returns what users of what is deprecated are told, on one line.
func (d *Decision) Deprecation() string {
	if d.Link == "" {
		return d.Reason
	}
	return d.Reason + " (" + d.Link + ")"
}
