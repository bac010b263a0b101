package policy

import (
	"cmp"
	"fmt"
	"path/filepath"
	"time"

	"github.com/modproxy/modproxy"
)

// Refusal is the error for a version that a verdict refuses. It wraps [modproxy.ErrDenied]. Users read its text.
type Refusal struct {
	Verdict
	modproxy.Ref
	Contact string // the person or channel that users turn to
}

func (*Refusal) Unwrap() error { return modproxy.ErrDenied }

// NamesContact marks errors whose text names a contact.
func (*Refusal) NamesContact() {}

func (r *Refusal) Error() string {
	ask := "ask the operator of this proxy"
	if r.Contact != "" {
		ask = "ask " + r.Contact
	}
	return "denied by the policy of this proxy: " + r.why(ask)
}

func (r *Refusal) why(ask string) string {
	switch r.Outcome {
	case Denied:
		return fmt.Sprintf("%s (%s denies %s%s); %s", cmp.Or(r.Rule.Reason, "a rule denies it"),
			r.place(), r.Rule.Deny, versionsOf(r.Rule), ask)
	case TooYoung:
		if r.Pending {
			return fmt.Sprintf("its date of publication is being requested from the registry, and a version may be used when it has been listed for %s (%s): try again in a minute; %s for an exemption",
				inDays(r.Rule.MinAge), r.place(), ask)
		}
		until := "once it is known to have been listed for that long"
		if !r.Until.IsZero() {
			until = "from " + day(r.Until.Add(time.Minute-1)) + " on"
		}
		return fmt.Sprintf("a version may be used when it has been listed for %s (%s): try again %s, or choose an older version; %s for an exemption",
			inDays(r.Rule.MinAge), r.place(), until, ask)
	case Unapproved:
		return fmt.Sprintf("it waits for approval (%s): %s to approve it", r.place(), ask)
	case Rejected, Blocked:
		d := r.Decision
		return fmt.Sprintf("%s on %s by %s: %s; %s", r.Outcome, day(d.Time), d.By, cmp.Or(d.Reason, "no reason is given"), ask)
	case Reserved:
		if at := r.Address; r.Own != "" && at.IsModule() && at.Name != "" {
			at.Host = r.Own
			ask = "write " + at.At("").Shown() + ", or " + ask
		}
		return fmt.Sprintf("the namespace %s is reserved for a private registry, and this address is in another one: %s", r.Namespace, ask)
	case NotLocked:
		return fmt.Sprintf("its content differs from the lock files (%s): %s", r.place(), ask)
	case Allowed, NotAllowed:
	}
	if r.Allows != "" {
		return fmt.Sprintf("no rule allows it (allowed: %s): choose one of these, or %s to have it allowed", r.Allows, ask)
	}
	return "no rule allows it: " + ask + " to have it allowed"
}

// place returns the position of the rule. It leaves out directories, which users need not see.
func (r *Refusal) place() string { return filepath.Base(r.Rule.Place) }

func day(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func versionsOf(r *Rule) string {
	if r.Versions.String() == "" {
		return ""
	}
	return " " + r.Versions.String()
}

// inDays returns d in days if possible.
func inDays(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == day:
		return "1 day"
	case d >= day && d%day == 0:
		return fmt.Sprintf("%d days", d/day)
	}
	return d.String()
}
