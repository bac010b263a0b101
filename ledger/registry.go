package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
)

// Upstream is a registry that knows git commits and can open a version from its recorded source.
type Upstream interface {
	modproxy.Registry
	// PackageAt opens the recorded source of a version, at the recorded commit if there is one, regardless of the registry's
	// current answer. The content may differ from the record. Errors are those of Package.
	PackageAt(ctx context.Context, rec modproxy.Record) (*modproxy.Package, error)
	// Commit returns the current git commit of a version. It is empty if only a download can tell. Errors are those of
	// Location.
	Commit(ctx context.Context, v modproxy.Ref) (string, error)
}

// Registry compares the packages of another registry with a ledger: a version must contain what it contained when it was first
// recorded. It is safe for concurrent use.
type Registry struct {
	Next   Upstream
	Ledger Ledger
	// Signers names the keys that may sign the releases of some providers. For all others, and if it is nil, these keys count:
	// those that signed the first recorded release, and those that were accepted since.
	Signers Signers
	// Observe, if not nil, receives events. It is called synchronously and must return quickly.
	Observe func(Event)
}

var _ modproxy.Registry = (*Registry)(nil)

// Kind is the kind of an [Event]. It can be the value of a metric's label.
type Kind string

const (
	Recorded Kind = "recorded" // the first record of a version was added; has Record
	Renewed  Kind = "renewed"  // a release of a provider has additional packages, or the same in other signed documents; has Record
	Drifted  Kind = "drifted"  // other content was offered and refused; has Record, Drift, Err
	Failed   Kind = "failed"   // the ledger failed to read or to add; has Err
	Moved    Kind = "moved"    // a recheck found a version at another commit; has Record, Commit, and Err unless the content is the same
	Unasked  Kind = "unasked"  // a recheck could not check a version; has Err
)

// Event reports something that happened in a [Registry] or a [Recheck]. Fields that its Kind does not mention are zero.
type Event struct {
	Kind         Kind
	modproxy.Ref        // zero if the event is about the whole ledger
	Record       Record // the record that counts
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

// Location returns Next's answer if its Subdir matches the record. Otherwise clients would load another module of the same
// package, and the error is [modproxy.ErrChanged]. If Next has withdrawn the version, Location returns the recorded source.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	l, err := r.Next.Location(ctx, v)
	if !v.IsModule() {
		return l, err
	}
	if v.IsListed() && withdrawn(err) {
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
	return l, nil // if the ledger failed, Package returns the error
}

// withdrawn reports whether err means that Next no longer has the one content of a version: the version or its tag was deleted, or its
// source names it more than once.
func withdrawn(err error) bool {
	return errors.Is(err, modproxy.ErrNotFound) || errors.As(err, new(*modproxy.Ambiguous))
}

// asked adds the operation and the version to err. An err that is not an error of a registry becomes ErrUnavailable.
func asked(op string, v modproxy.Ref, err error) error {
	known := func(is error) bool { return errors.Is(err, is) }
	if !slices.ContainsFunc([]error{modproxy.ErrInvalid, modproxy.ErrChanged, modproxy.ErrDenied, modproxy.ErrUnavailable}, known) {
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	return modproxy.Wrap(op, v, err)
}
