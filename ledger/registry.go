package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
)

// Upstream is a registry that knows git commits, and can fetch a version from where it came from before.
type Upstream interface {
	modproxy.Registry
	// PackageAt opens what the recorded source of a version has, at the recorded commit if there is one, whatever the
	// registry says by now. It may not be what is recorded. Errors are those of Package.
	PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error)
	// Commit returns the git commit of a version now, empty where only a fetch could tell. Errors are those of Location.
	Commit(ctx context.Context, v modproxy.Ref) (string, error)
}

// Registry compares the packages of another registry with a ledger: what a version contained when it was first seen is
// what it contains. It is safe for concurrent use.
type Registry struct {
	Next   Upstream
	Ledger Ledger
	// Signers says who may sign the releases of some providers. Nil, and of all others: those that have signed the first
	// one that was seen, and those that were accepted since.
	Signers Signers
	// Observe, if not nil, is told what happens. It is called from the goroutine that asks, and does not hold it up.
	Observe func(Event)
}

var _ modproxy.Registry = (*Registry)(nil)

// Kind says what an [Event] tells. It is fit for the name of a metric's label.
type Kind string

const (
	Recorded Kind = "recorded" // a version was seen for the first time; Record
	Renewed  Kind = "renewed"  // a release of a provider has more packages than was recorded, or the same in other documents; Record
	Drifted  Kind = "drifted"  // other content was offered, and refused; Record, Drift, Err
	Failed   Kind = "failed"   // the ledger did not answer, or did not take something; Err
	Moved    Kind = "moved"    // a recheck found a version at another commit; Record, Commit, Err unless the content is the same
	Unasked  Kind = "unasked"  // a recheck could not ask about a version; Err
)

// Event is something that happened in a [Registry] or a [Recheck]. Fields that its Kind does not mention are zero.
type Event struct {
	Kind         Kind
	modproxy.Ref        // zero when it is about the whole ledger
	Record       Record // what counts
	Drift        Drift
	Commit       string
	Err          error
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// Versions returns Next's answer.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns Next's answer, if its Subdir is the one that the ledger has. If not, the error is
// [modproxy.ErrChanged]: clients would load another module of the same package. If Next does not find the version any more,
// Location returns the recorded source.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if v.IsProvider() {
		return l, err
	}
	if v.IsListed() && errors.Is(err, modproxy.ErrNotFound) {
		if rec, absent := r.recorded(ctx, v); absent == nil {
			return rec.Location(), nil
		}
	}
	if err != nil {
		return l, err
	}
	rec, err := r.Ledger.Lookup(ctx, v)
	if _, subdir := l.SplitGlob(); err == nil && !rec.Is(rec.Sum, subdir) {
		err = r.drifted(ctx, rec, Record{Ref: v, Sum: rec.Sum, Subdir: subdir, Source: rec.Source})
		return modproxy.Location{}, asked("location", v, err)
	}
	return l, nil // when the ledger does not answer, Package returns the error
}

// asked adds the question to err, and makes it one of the errors that a registry has.
func asked(op string, v modproxy.Ref, err error) error {
	known := func(is error) bool { return errors.Is(err, is) }
	if !slices.ContainsFunc([]error{modproxy.ErrInvalid, modproxy.ErrChanged, modproxy.ErrDenied, modproxy.ErrUnavailable}, known) {
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	return modproxy.Wrap(op, v, err)
}
