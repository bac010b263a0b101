package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
)

// Package returns Next's answer, if it is what the ledger has. A version that the ledger does not have is added, and is
// durable before Package returns. Where Next has another commit of the recorded repository, or finds nothing any more,
// Package returns what Next has at the recorded commit, if that is what the ledger has.
//
// Errors are those of Next; ErrChanged for content that is not what is recorded; ErrUnavailable when the ledger fails.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	p, err := r.Next.Package(ctx, v)
	var offered modproxy.Source
	if err == nil {
		if err = r.Compare(ctx, sighted(v, p)); err == nil {
			return p, nil
		}
		offered, err = p.Source, asked("package", v, err)
		p.Close() // it is not used
	}
	rec, absent := r.Ledger.Lookup(ctx, v)
	if absent != nil || rec.Source.Commit == "" {
		return nil, err
	}
	moved := errors.Is(err, modproxy.ErrChanged) && offered.URL == rec.Source.URL && offered.Commit != "" && offered.Commit != rec.Source.Commit
	if !moved && !errors.Is(err, modproxy.ErrNotFound) { // when it is not found, its tag may have been deleted
		return nil, err
	}
	p, errRecorded := r.Next.PackageAt(ctx, v, rec.Source.Commit)
	if errRecorded == nil && (p.Source != rec.Source || !rec.Is(p.Sum, p.Subdir)) {
		errRecorded = errors.Join(errors.New("it is not what is recorded either"), p.Close())
	}
	if errRecorded == nil {
		return p, nil
	}
	if named := (*modproxy.Error)(nil); errors.As(errRecorded, &named) {
		errRecorded = named.Err // the question is known
	}
	return nil, fmt.Errorf("%w; the recorded commit cannot be had: %v", err, errRecorded) // %v: err is what is wrong
}

// Compare returns an error unless a version, which is offered as something, is that. It is recorded where there is no
// record. Errors are ErrChanged, and ErrUnavailable when the ledger fails.
func (r *Registry) Compare(ctx context.Context, offered Record) error {
	v := offered.ModuleVersion
	rec, err := r.Ledger.Lookup(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		rec = offered
		err = r.Ledger.Add(ctx, rec)
		if err == nil {
			r.observe(Event{Kind: Recorded, ModuleVersion: v, Record: rec})
			return nil
		}
		if errors.Is(err, modproxy.ErrChanged) { // another one was added meanwhile
			rec, err = r.Ledger.Lookup(ctx, v)
		}
	}
	if err != nil {
		if ctx.Err() == nil {
			r.observe(Event{Kind: Failed, ModuleVersion: v, Err: err})
		}
		return fmt.Errorf("ledger: %w", err)
	}
	if rec.Is(offered.Sum, offered.Subdir) {
		return nil
	}
	return r.drifted(ctx, rec, offered.Sum, offered.Subdir, offered.Source)
}

// drifted keeps the observation that what is offered is not what rec says, and returns the error that people read.
func (r *Registry) drifted(ctx context.Context, rec Record, sum modproxy.Sum, subdir string, source modproxy.Source) error {
	d := Drift{ModuleVersion: rec.ModuleVersion, Recorded: rec.Sum, Offered: sum, Source: source, Time: time.Now()}
	was, is := string(rec.Sum), string(sum)
	if !rec.Is(rec.Sum, subdir) {
		d.Subdir = cmp.Or(subdir, ".")
		was += ", directory " + rec.Subdir + ","
		is += ", directory " + d.Subdir + ","
	}
	if err := r.Ledger.AddDrift(ctx, d); err != nil && ctx.Err() == nil {
		r.observe(Event{Kind: Failed, ModuleVersion: d.ModuleVersion, Err: err})
	}
	err := fmt.Errorf("%w: it was %s when it was recorded, %s, from %s, and is %s now, from %s: "+
		"\"modproxy ledger drift\" shows it, and the command that accepts it",
		modproxy.ErrChanged, was, rec.Time.UTC().Format(time.RFC3339), describe(rec.Source), is, describe(source))
	r.observe(Event{Kind: Drifted, ModuleVersion: d.ModuleVersion, Record: rec, Drift: d, Err: err})
	return err
}

// sighted returns the record of a version that is p now.
func sighted(v modproxy.ModuleVersion, p *modproxy.Package) Record {
	return Record{ModuleVersion: v, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Source: p.Source, Time: time.Now()}
}

func describe(s modproxy.Source) string {
	where := cmp.Or(s.URL, "an unknown source")
	if s.Commit != "" {
		where += " at commit " + s.Commit
	}
	return where
}
