package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/modproxy/modproxy"
)

// Registry holds the packages of another registry to a ledger: what a version
// contained when it was first seen is what it contains. It is safe for concurrent
// use.
type Registry struct {
	// Next is asked. Nil is offline: every answer is [modproxy.ErrUnavailable].
	Next   modproxy.Registry
	Ledger Ledger
	// At fetches what a git repository has of a version at a commit, wherever the ref
	// in the version's location points by now. Nil: what has moved is refused.
	At func(ctx context.Context, m modproxy.Module, version, commit string) (*modproxy.Package, error)
	// Observe, if not nil, is told what happens. It is called from the goroutine
	// that asks, and does not hold it up.
	Observe func(Event)
}

var _ modproxy.Registry = (*Registry)(nil)

// Kind says what an [Event] tells. It is fit for the name of a metric's label.
type Kind string

const (
	Recorded Kind = "recorded" // a version was seen for the first time; Sum, Source
	Drifted  Kind = "drifted"  // other content was offered, and refused; Sum, Source, Drift
	Failed   Kind = "failed"   // the ledger did not answer, or did not take something; Err
)

// Event is something that happened in a [Registry]. Fields that its Kind does
// not mention are zero.
type Event struct {
	Kind    Kind
	Module  modproxy.Module
	Version string
	Sum     modproxy.Sum    // of what Next gave
	Source  modproxy.Source // of what Next gave
	Drift   Drift
	Err     error
}

func (r *Registry) observe(e Event) {
	if r.Observe != nil {
		r.Observe(e)
	}
}

// Versions is Next's answer.
func (r *Registry) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	if r.Next == nil {
		return nil, wrap("versions", m, "", errOffline)
	}
	return r.Next.Versions(ctx, m)
}

// Location is Next's answer, if its Subdir is the one that the ledger has. If not,
// the error is [modproxy.ErrChanged]: clients would load another module of the same
// package.
func (r *Registry) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	m, version := v.Module, v.Version
	if r.Next == nil {
		return modproxy.Location{}, wrap("location", m, version, errOffline)
	}
	l, err := r.Next.Location(ctx, m.At(version))
	if err != nil {
		return l, err
	}
	rec, err := r.Ledger.Lookup(m, version)
	if _, subdir := l.SplitGlob(); err == nil && !rec.Is(rec.Sum, subdir) {
		err = r.drifted(rec, rec.Sum, subdir, rec.Source)
		return modproxy.Location{}, wrap("location", m, version, err)
	}
	return l, nil // what the ledger does not say, Package finds out
}

var errOffline = fmt.Errorf("%w: offline", modproxy.ErrUnavailable)

// wrap adds the question to err, unless a layer below has, and makes it one of
// the errors that a registry has.
func wrap(op string, m modproxy.Module, version string, err error) error {
	var named *modproxy.Error
	if errors.As(err, &named) {
		return err
	}
	for _, known := range []error{modproxy.ErrInvalid, modproxy.ErrChanged, modproxy.ErrUnavailable} {
		if errors.Is(err, known) {
			return &modproxy.Error{Op: op, Module: m, Version: version, Err: err}
		}
	}
	return &modproxy.Error{Op: op, Module: m, Version: version, Err: fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)}
}
