// Package policy decides which versions of modules clients may use, and denies the others.
//
//	rules, err := policy.Compile(policy.Config{DefaultDeny: true, Rules: list})
//	gate := policy.NewGate(records, times)
//	gate.Use(rules)
//	reg = &policy.Registry{Next: reg, Gate: gate}
//
// A version is denied if one rule denies it. Otherwise it is allowed if the default allows it, or if one rule allows it
// and all conditions of that rule hold. The order of rules does not matter: an added deny never allows a version, and
// an added allow never denies one. Decisions of operators come before the rules: a block or a rejection refuses a
// version, and an approval fulfils the conditions approval and minimum age of the rules that allow it.
//
// Invariant: each version and client has one verdict. [Selection.Decide] makes it from rules, decisions and facts;
// [Gate.Decide] and [Registry], which checks every answer, collect the facts. Code that explains, reports or tests
// verdicts uses the same functions. All spellings of an address or a
// version have the same verdict: names are compared without regard to case, and versions without build metadata.
package policy

import (
	"time"

	"github.com/modproxy/modproxy"
)

// Outcome is the result of a verdict. Its values are few, so it can be the label of a metric.
type Outcome string

const (
	Allowed    Outcome = "allowed"
	Denied     Outcome = "denied"      // by a rule
	NotAllowed Outcome = "not_allowed" // no rule allows the version, and the default is deny
	TooYoung   Outcome = "too_young"   // for every rule that would allow the version
	Unapproved Outcome = "unapproved"  // a rule would allow the version after an approval
	Rejected   Outcome = "rejected"    // by a decision
	Blocked    Outcome = "blocked"     // by a decision
	Reserved   Outcome = "reserved"    // the namespace belongs to a private registry
	NotLocked  Outcome = "not_locked"  // the content differs from the lock files that allow the version
)

// Verdict is the decision about a version for a client, and its reason.
type Verdict struct {
	Outcome  Outcome
	Rule     *Rule              // the rule that allows or denies; nil for the default and for decisions
	Decision *modproxy.Decision // the decision that refuses or approves; may be nil
	Until    time.Time          // when a TooYoung version becomes old enough, or an approval ends; zero if unknown or never
	Allows   string             // the versions of the module that rules allow, in words; empty if this version is allowed
	Own      string             // the host that a Reserved module may be at, for the refusal; may be empty
	Pending  bool               // a TooYoung version may be old enough: its publication date is being requested from the registry
}

// Refused reports whether the version may not be used.
func (v Verdict) Refused() bool { return v.Outcome != Allowed }

// VersionFacts are the known facts about a version. The zero VersionFacts contain no fact.
type VersionFacts struct {
	// Since is the time at which the version was first listed, if it is known: the earliest of the date from the
	// registry's API, the first-seen time and the time of its record in the ledger. It is zero if the version was listed when the module was first seen, and
	// the registry gives no date.
	Since      time.Time
	ModuleSeen time.Time    // when the module was first seen, if the version was listed then
	Sum        modproxy.Sum // the recorded content; empty without a record
}
