package policy

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
)

// Registry returns the answers of Next for everything that the gate allows. It does not request refused versions from
// Next, does not list them, and does not open their packages. If a package is refused while it is read, reading fails
// within about a second. Registry is safe for concurrent use.
type Registry struct {
	Next modproxy.Registry
	Gate *Gate
	// FirstSeen, if not nil, replaces Gate.FirstSeen where versions are listed. It returns first-seen times without a request
	// to a registry.
	FirstSeen FirstSeen
	// ListDenied is for clients that install: if the rules have [Config.ListDenied], Versions also lists denied
	// versions.
	ListDenied bool
	// Observe, if not nil, is called for every refusal, in the goroutine of the request. It should return quickly.
	Observe func(Event)
}

var _ modproxy.Registry = (*Registry)(nil)

// Event is a refusal, or in audit mode a refusal that did not take effect.
type Event struct {
	Refusal *Refusal
	Op      string // "versions", "location" or "package"
	Client  modproxy.Client
	Audit   bool     // the refusal did not take effect
	Hidden  int      // number of versions removed from a list, Refusal being about the newest; else zero
	Waits   *Refusal // the newest refusal that waits for approval; may be nil
}

// Versions returns the allowed versions, or with ListDenied all versions, unless the namespace is [Reserved]. Clients
// that install then request a denied version, and print why Location denies it.
//
// Errors: those of Next; [*Refusal] if no version is allowed.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	s, err := r.Gate.now(ctx)
	if err != nil || s.idle() {
		if err != nil {
			return nil, modproxy.Wrap("versions", m.At(""), err)
		}
		return r.Next.Versions(ctx, m)
	}
	sel := s.of(ctx, m)
	if judgedLater := s.rules.Audit || r.listsDenied(s); !judgedLater || sel.reserved != nil {
		if err := r.pass(ctx, s, sel, "versions", m.At(""), ""); err != nil {
			return nil, err
		}
	}
	v, err := r.Next.Versions(ctx, m)
	switch {
	case err != nil:
		return nil, err
	case r.listsDenied(s) && !m.Kind().HasWarnings():
		if sel.needsAge() {
			r.Gate.see(ctx, m, v)
			evaluator := r.Gate.newEvaluator(ctx, s, sel, r.Gate.FirstSeen)
			evaluator.look() // so that the facts that Location needs are known by then
		}
		return v, nil
	}
	return r.filter(ctx, s, sel, v)
}

// listsDenied reports whether Versions lists denied versions.
func (r *Registry) listsDenied(s *state) bool {
	return r.ListDenied && s.rules.ListDenied && !s.rules.Audit
}

// list contains the allowed part of a versions document, for a limited time.
type list struct {
	some   *modproxy.Versions // the document for clients; nil if no version is allowed
	hidden int
	newest *Refusal // about the newest hidden version; may be nil
	waits  *Refusal // about the newest hidden version that waits for approval
	until  time.Time
}

// listKey identifies a document and the clients that may see the same part of it.
type listKey struct {
	selection  *Selection
	etag       string
	firstSeen  FirstSeen // those of the [Registry]
	listDenied bool
}

const (
	listFor    = 10 * time.Second // how long the allowed part of a document is remembered
	maxListing = 128 << 10        // size of a remembered document in bytes
)

// filter returns the allowed part of v.
func (r *Registry) filter(ctx context.Context, s *state, sel *Selection, v *modproxy.Versions) (*modproxy.Versions, error) {
	asker, m, key := modproxy.ClientOf(ctx), sel.module, listKey{sel, v.ETag, r.FirstSeen, r.listsDenied(s)}
	l, ok := s.lists.Get(key)
	if !ok || !time.Now().Before(l.until) {
		var err error
		if l, err = r.makeList(ctx, s, sel, v); err != nil {
			if s.rules.Audit {
				return v, nil
			}
			return nil, modproxy.Wrap("versions", m.At(""), err)
		}
		if len(v.Document) <= maxListing {
			s.lists.Add(key, l, memory.Forever, 0)
		}
	}
	if l.newest != nil && !key.listDenied { // with listDenied, only Location denies
		r.observe(Event{l.newest, "versions", asker, s.rules.Audit, l.hidden, l.waits})
	}
	switch {
	case l.hidden == 0 || s.rules.Audit:
		return v, nil
	case l.some == nil:
		return nil, modproxy.Wrap("versions", m.At(""), l.newest)
	}
	some := *l.some
	some.Dropped, some.Time, some.Hit, some.Stale = v.Dropped, v.Time, v.Hit, v.Stale
	return &some, nil
}

// makeList returns the allowed part of v.
func (r *Registry) makeList(ctx context.Context, s *state, sel *Selection, v *modproxy.Versions) (l list, err error) {
	if sel.needsAge() {
		r.Gate.see(ctx, sel.module, v)
	}
	firstSeen := r.FirstSeen
	if firstSeen == nil {
		firstSeen = r.Gate.FirstSeen
	}
	evaluator := r.Gate.newEvaluator(ctx, s, sel, firstSeen)
	l.until = time.Now().Add(listFor)
	var newest, waits, dated modproxy.Version
	var pending *Refusal // about the newest version that may be old enough
	var failed error
	denied := denials{}
	refusal := func(version modproxy.Version, verdict Verdict) *Refusal {
		return r.refusal(s, sel.module.At(version.String()), verdict)
	}
	l.some, err = v.Only(func(entry modproxy.Listed) bool {
		verdict, err := evaluator.verdict(entry.Version, "")
		if err != nil {
			failed = err
		}
		if until := verdict.Until; !until.IsZero() && until.Before(l.until) {
			l.until = until
		}
		if !verdict.Refused() {
			return true
		}
		if l.hidden++; l.newest == nil || entry.Version.Compare(newest) > 0 {
			l.newest, newest = refusal(entry.Version, verdict), entry.Version
		}
		if verdict.Pending && (pending == nil || entry.Version.Compare(dated) > 0) {
			pending, dated = refusal(entry.Version, verdict), entry.Version
		}
		if verdict.Outcome == Unapproved && (l.waits == nil || entry.Version.Compare(waits) > 0) {
			l.waits, waits = refusal(entry.Version, verdict), entry.Version
		}
		if sel.module.Kind().HasWarnings() {
			denied.add(entry.Version, verdict)
		}
		return false
	})
	if pending != nil { // the publication date may arrive at any moment
		l.until = time.Time{}
	}
	if pending != nil && l.some == nil {
		l.newest = pending
	}
	listed := r.listsDenied(s)
	if listed { // the client installs a provider, and prints the warnings
		l.some = v
	}
	if err = cmp.Or(failed, err); err == nil && l.some != nil && len(denied) > 0 {
		l.some, err = l.some.Warn(denied.warnings(sel.module, listed, refusal)...)
	}
	return l, err
}

// Location returns the answer of Next.
//
// Errors: those of Next; [*Refusal].
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	s, err := r.Gate.now(ctx)
	if err != nil {
		return modproxy.Location{}, modproxy.Wrap("location", v, err)
	}
	sel := s.of(ctx, v.Address)
	if err := r.pass(ctx, s, sel, "location", v, ""); err != nil {
		return modproxy.Location{}, err
	}
	l, err := r.Next.Location(ctx, v)
	if err != nil || !l.Kept || sel == nil || !sel.locked {
		return l, err
	}
	return l, r.pass(ctx, s, sel, "location", v, "") // the content is known by now, and clients print why a location is refused
}

// Package returns the answer of Next.
//
// Errors: those of Next; [*Refusal]. Reading the package also returns [*Refusal] if it is refused meanwhile.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	s, err := r.Gate.now(ctx)
	if err != nil {
		return nil, modproxy.Wrap("package", v, err)
	}
	sel := s.ofVersion(ctx, v)
	if err := r.pass(ctx, s, sel, "package", v, ""); err != nil {
		return nil, err
	}
	p, err := r.Next.Package(ctx, v)
	if err != nil {
		return nil, err
	}
	g := &guard{p.Body, r, ctx, v, p.Sum, s, time.Now()}
	if sel != nil && sel.locked {
		g.state = nil // the content is known by now
	}
	if err := g.check(); err != nil { // the download took time
		return nil, errors.Join(err, p.Close())
	}
	guarded := *p
	guarded.Body = g
	return &guarded, nil
}

// pass returns an error if sel refuses v. sel is nil if everything is allowed. content is the sum of v if it is known.
func (r *Registry) pass(
	ctx context.Context, s *state, sel *Selection, op string, v modproxy.Ref, content modproxy.Sum,
) error {
	if sel == nil {
		return nil
	}
	verdict, err := r.Gate.decideIn(ctx, s, sel, v, content, r.Gate.FirstSeen)
	if err == nil && verdict.Outcome == TooYoung && verdict.Until.IsZero() { // the version has no first-seen time
		switch list, err := r.Next.Versions(ctx, v.Address); {
		case err == nil:
			r.Gate.see(ctx, v.Address, list)
		case !s.rules.Audit:
			return err
		}
		verdict, err = r.Gate.decideIn(ctx, s, sel, v, content, r.Gate.FirstSeen)
	}
	switch {
	case err != nil && s.rules.Audit:
		return nil
	case err != nil:
		return modproxy.Wrap(op, v, err)
	case !verdict.Refused():
		return nil
	}
	refusal := r.refusal(s, v, verdict)
	event := Event{Refusal: refusal, Op: op, Client: modproxy.ClientOf(ctx), Audit: s.rules.Audit && verdict.Outcome != Reserved}
	if verdict.Outcome == Unapproved {
		event.Waits = refusal
	}
	r.observe(event)
	if event.Audit {
		return nil
	}
	return modproxy.Wrap(op, v, refusal)
}

func (r *Registry) refusal(s *state, v modproxy.Ref, verdict Verdict) *Refusal {
	return &Refusal{verdict, v, s.rules.Contact}
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}
