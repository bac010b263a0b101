package modproxy

import (
	"strings"
	"time"
)

// Action is the kind of an operator's decision about versions of a module. Its text is one word that messages can use.
type Action string

const (
	Approve   Action = "approve"   // allows versions where a rule requires approval, and before they have the minimum age
	Reject    Action = "reject"    // denies versions; ends an approval
	Block     Action = "block"     // denies versions; overrides all other decisions
	Unblock   Action = "unblock"   // ends a block of the same versions
	Deprecate Action = "deprecate" // warns against versions; an empty Reason ends the deprecation
)

// Decision is an operator's decision about versions of a module, or of all modules that a glob matches. The ledger stores
// decisions. A later decision replaces earlier ones of the same kind about the same Versions, for the modules that both
// match.
type Decision struct {
	Address  `json:"-"` // or a glob: its segments are in lower case, and * matches any part of a segment
	Action   Action     `json:"action"`
	Versions string     `json:"versions,omitempty"` // a version constraint; empty for every version
	By       string     `json:"by"`                 // the operator, one line
	Time     time.Time  `json:"time"`               // when the operator decided; not zero
	Until    time.Time  `json:"until,omitzero"`     // when an approval ends; zero for never
	Reason   string     `json:"reason,omitempty"`   // why, one line of at most 1,024 bytes
	Link     string     `json:"link,omitempty"`     // an https URL with more information for users of deprecated versions
}

// IsGlob reports whether d applies to all modules that a glob matches.
func (d *Decision) IsGlob() bool { return strings.Contains(d.Address.String(), "*") }

// Deprecation returns the message for users of deprecated versions, on one line.
func (d *Decision) Deprecation() string {
	if d.Link == "" {
		return d.Reason
	}
	return d.Reason + " (" + d.Link + ")"
}
