package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Package is Next's answer, if it is what the ledger has. A version that it does
// not have is added, and is durable before Package returns. Where Next's answer is
// another one, from another commit of the repository that is recorded, Package is
// what At gives for the recorded commit, if that is what the ledger has; so it is
// where Next does not find what it has answered before.
//
// Errors: those of Next; [modproxy.ErrChanged] when the content is not what is
// recorded; [modproxy.ErrUnavailable] when the ledger does not answer, because
// then nobody knows.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	m, version := v.Module, v.Version
	if r.Next == nil {
		return nil, wrap("package", m, version, errOffline)
	}
	p, err := r.Next.Package(ctx, m.At(version))
	if errors.Is(err, modproxy.ErrNotFound) {
		return r.deleted(ctx, m, version, err)
	}
	if err != nil {
		return nil, err
	}
	if err = r.hold(m, version, p); err == nil {
		return p, nil
	}
	p.Close() // it is not used
	if errors.Is(err, modproxy.ErrChanged) {
		was, errWas := r.recorded(ctx, m, version, p.Source)
		if was != nil {
			return was, nil
		}
		if errWas != nil { // which is not what is wrong: of its text only
			err = fmt.Errorf("%w; the recorded commit cannot be had: %v", err, errWas)
		}
	}
	return nil, wrap("package", m, version, err)
}

// recorded is the package at the commit that is recorded, when what is offered is
// from another commit of the same repository. Both results are nil when it is not.
func (r *Registry) recorded(ctx context.Context, m modproxy.Module, version string, offered modproxy.Source) (*modproxy.Package, error) {
	rec, err := r.Ledger.Lookup(m, version)
	was := rec.Source
	if r.At == nil || err != nil || was.Commit == "" || offered.Commit == "" || offered.URL != was.URL || offered.Commit == was.Commit {
		return nil, err
	}
	return r.at(ctx, rec)
}

// deleted is the package at the commit that is recorded, when err is that Next does not
// find what the version was: its tag may have been deleted.
func (r *Registry) deleted(ctx context.Context, m modproxy.Module, version string, err error) (*modproxy.Package, error) {
	rec, none := r.Ledger.Lookup(m, version)
	if r.At == nil || none != nil || rec.Source.Commit == "" {
		return nil, err
	}
	p, errWas := r.at(ctx, rec)
	if errWas != nil {
		return nil, fmt.Errorf("%w; the recorded commit cannot be had: %v", err, errWas)
	}
	return p, nil
}

// at is the package at the commit of rec, if it is what rec says.
func (r *Registry) at(ctx context.Context, rec Record) (*modproxy.Package, error) {
	was := rec.Source
	p, err := r.At(ctx, rec.Module, rec.Version, was.Commit)
	if named := (*modproxy.Error)(nil); errors.As(err, &named) {
		return nil, named.Err // the question is known
	}
	if err != nil {
		return nil, err
	}
	if p.Source != was || !rec.Is(p.Sum, p.Subdir) {
		return nil, errors.Join(errors.New("it is not what is recorded either"), p.Close())
	}
	return p, nil
}

// hold holds p to the record of its version, which it makes where there is none.
func (r *Registry) hold(m modproxy.Module, version string, p *modproxy.Package) error {
	rec, err := r.Ledger.Lookup(m, version)
	if errors.Is(err, fs.ErrNotExist) {
		rec = Record{ModuleVersion: modproxy.ModuleVersion{Module: m, Version: version}, Sum: p.Sum, Subdir: Subdir(p.Subdir), Source: p.Source, Time: time.Now()}
		err = r.Ledger.Add(rec)
		if err == nil {
			r.observe(Event{Kind: Recorded, Module: m, Version: version, Sum: p.Sum, Source: p.Source})
			return nil
		}
		if errors.Is(err, modproxy.ErrChanged) { // somebody else came first
			rec, err = r.Ledger.Lookup(m, version)
		}
	}
	if err != nil {
		r.observe(Event{Kind: Failed, Module: m, Version: version, Err: err})
		return fmt.Errorf("ledger: %w", err)
	}
	if rec.Is(p.Sum, p.Subdir) {
		return nil
	}
	return r.drifted(rec, p.Sum, p.Subdir, p.Source)
}

// Subdir is a package's Subdir as a [Record] has it.
func Subdir(of string) string {
	if of == "" {
		return "."
	}
	return of
}

// drifted keeps the observation that what is offered is not what rec says, and is
// the error that people read.
func (r *Registry) drifted(rec Record, sum modproxy.Sum, subdir string, source modproxy.Source) error {
	d := Drift{Module: rec.Module, Version: rec.Version, Recorded: rec.Sum, Offered: sum, Source: source, Time: time.Now()}
	was, is := string(rec.Sum), string(sum)
	if !rec.Is(rec.Sum, subdir) {
		d.Subdir = Subdir(subdir)
		was += ", directory " + rec.Subdir + ","
		is += ", directory " + d.Subdir + ","
	}
	if err := r.Ledger.Drift(d); err != nil {
		r.observe(Event{Kind: Failed, Module: rec.Module, Version: rec.Version, Err: err})
	}
	err := fmt.Errorf("%w: it was %s when it was recorded, %s, from %s, and is %s now, from %s: "+
		"\"modproxy ledger drift\" shows it, and the command that accepts it",
		modproxy.ErrChanged, was, rec.Time.UTC().Format(time.RFC3339), describe(rec.Source),
		is, describe(source))
	r.observe(Event{Kind: Drifted, Module: rec.Module, Version: rec.Version, Sum: sum, Source: source, Drift: d, Err: err})
	return err
}

func describe(s modproxy.Source) string {
	switch {
	case s.URL == "":
		return "an unknown source"
	case s.Commit == "":
		return s.URL
	}
	return s.URL + " at commit " + s.Commit
}
