package main

import (
	"context"
	"errors"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// tellEarly is Next, and tells who asks where a package is that it is not what is
// recorded, if that turns out soon: clients show a person what is answered to that
// question, and nothing but the status of what the package is answered with. It
// waits only for what was seen before and is not kept: what is fetched again.
type tellEarly struct {
	Next   modproxy.Registry
	Ledger ledger.Ledger
}

var _ modproxy.Registry = (*tellEarly)(nil)

// tellWithin is how long the question may take. Clients give it ten seconds, some
// of them five.
const tellWithin = 3500 * time.Millisecond

// Versions is Next's answer.
func (r *tellEarly) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location is Next's answer, or [modproxy.ErrChanged].
func (r *tellEarly) Location(ctx context.Context, m modproxy.Module, version string) (modproxy.Location, error) {
	asked := time.Now()
	l, err := r.Next.Location(ctx, m, version)
	if err != nil || l.Kept {
		return l, err
	}
	if _, err := r.Ledger.Lookup(m, version); err != nil {
		return l, nil // there is nothing that it must be, or the fetch tells
	}
	soon, cancel := context.WithDeadline(ctx, asked.Add(tellWithin))
	defer cancel()
	p, err := r.Next.Package(soon, m, version) // the fetch goes on when nobody waits
	if err == nil {
		p.Close() // it was not read
	}
	if errors.Is(err, modproxy.ErrChanged) {
		return modproxy.Location{}, err
	}
	return l, nil
}

// Package is Next's answer.
func (r *tellEarly) Package(ctx context.Context, m modproxy.Module, version string) (*modproxy.Package, error) {
	return r.Next.Package(ctx, m, version)
}
