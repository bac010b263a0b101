// Package policy decides which versions of modules may be used, and refuses the others.
//
// Deny wins over allow, allows add up, and the order of rules does not matter. A version is refused if one rule denies it;
// otherwise it is allowed if one rule allows it whose conditions all hold, or if that is the default. Adding a deny never
// allows anything, and adding an allow never refuses anything. What an operator decided about a version comes before the
// rules: a block or a rejection refuses it, and an approval fulfils the conditions approval and minimum age of the rules
// that allow it.
//
// Invariant: there is one verdict for each version and client, and [Gate.Decide] makes it. [Registry], the layer that
// refuses, asks it before every answer, and so does what explains, reports and tests verdicts. Every spelling of an address
// or a version has the same verdict: names are compared without regard to case, and versions without build metadata.
package policy

import (
	"time"

	"github.com/modproxy/modproxy"
)

// Outcome is what is decided. It is fit for the label of a metric.
type Outcome string

const (
	Allowed    Outcome = "allowed"
	Denied     Outcome = "denied"      // by a rule
	NotAllowed Outcome = "not_allowed" // by no rule, and the default is deny
	TooYoung   Outcome = "too_young"   // for every rule that would allow it
	Unapproved Outcome = "unapproved"  // a rule would allow it that wants approval
	Rejected   Outcome = "rejected"    // by a decision
	Blocked    Outcome = "blocked"     // by a decision
	Reserved   Outcome = "reserved"    // the namespace belongs to a private registry
	NotLocked  Outcome = "not_locked"  // the content is not what the lock files allow
)

// Verdict is what is decided about a version for a client, and why.
type Verdict struct {
	Outcome  Outcome
	Rule     *Rule              // that allows or refuses; nil for the default and for decisions
	Decision *modproxy.Decision // that refuses, or approves; may be nil
	Until    time.Time          // when what is TooYoung is old enough, or an approval ends; zero if that is not known, or never
	Allows   string             // the versions of the module that rules allow, in words, if they do not allow this one; or empty
	Pending  bool               // what is TooYoung may be old enough: its registry is being asked when it was published
}

// Refused reports whether the version may not be used.
func (v Verdict) Refused() bool { return v.Outcome != Allowed }

// Facts are what is known about a version. The zero Facts are nothing.
type Facts struct {
	// Since is when the version began to be listed, as far as that is known: the date of the registry's API unless that
	// is later than when the version was first seen here, or when it was first seen here. Zero if it was listed when the
	// module was met, and the registry gives no date.
	Since time.Time
	Met   time.Time    // when the module was met, if the version was listed then
	Sum   modproxy.Sum // the recorded content; empty if there is none
}
