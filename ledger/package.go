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
// The package of a provider may still come, and is compared when it has arrived.
//
// Errors are those of Next; ErrChanged for content that is not what is recorded; ErrUnavailable when the ledger fails, and for the
// package of a provider for one platform whose release is not recorded; ErrDenied for a release that Signers does not take.
func (r *Registry) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	if v.IsProvider() {
		return r.ofProvider(ctx, v)
	}
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
// record, with the keys that have signed it if it is the first release of a provider. A release that has all packages which are
// recorded of it, and was signed by a key that may do that, is recorded in the place of what was.
//
// Errors are those of Package that are not of Next.
func (r *Registry) Compare(ctx context.Context, offered Record) error {
	v := offered.ModuleVersion
	if err := r.checkArchive(ctx, v, offered.Sum); err != nil {
		return err
	}
	rec, err := r.Ledger.Lookup(ctx, v)
	if errors.Is(err, fs.ErrNotExist) {
		if err := r.checkSigner(ctx, offered); err != nil {
			return err
		}
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
	switch {
	case err != nil:
		return r.failed(ctx, v, err)
	case rec.Is(offered.Sum, offered.Subdir):
		return nil
	case v.IsProvider():
		return r.renew(ctx, rec, offered)
	}
	return r.drifted(ctx, rec, offered)
}

// failed tells that the ledger did not do something for v, and returns the error.
func (r *Registry) failed(ctx context.Context, v modproxy.ModuleVersion, err error) error {
	if ctx.Err() == nil {
		r.observe(Event{Kind: Failed, ModuleVersion: v, Err: err})
	}
	return fmt.Errorf("ledger: %w", err)
}

// drifted keeps the observation that what is offered is not what rec says, and returns the error that people read.
func (r *Registry) drifted(ctx context.Context, rec, offered Record) error {
	d := Drift{
		ModuleVersion: rec.ModuleVersion, Recorded: rec.Sum, Offered: offered.Sum, Source: offered.Source, Time: time.Now(), Facts: offered.Facts,
	}
	was, is := string(rec.Sum), string(offered.Sum)
	if !rec.Is(rec.Sum, offered.Subdir) {
		d.Subdir = cmp.Or(offered.Subdir, ".")
		was += ", directory " + rec.Subdir + ","
		is += ", directory " + d.Subdir + ","
	}
	if err := r.Ledger.AddDrift(ctx, d); err != nil && ctx.Err() == nil {
		r.observe(Event{Kind: Failed, ModuleVersion: d.ModuleVersion, Err: err})
	}
	err := fmt.Errorf("%w: it was %s when it was recorded, %s, from %s, and is %s now, from %s: "+
		"\"modproxy ledger drift\" shows it, and the command that accepts it",
		modproxy.ErrChanged, was, stamp(rec.Time), describe(rec.Source), is, describe(offered.Source))
	switch {
	case rec.Zips != "":
		err = fmt.Errorf("%w: its packages for %s were others when it was recorded, %s, from %s, than they are now, from %s: "+
			"\"modproxy ledger drift\" shows it, and the command that accepts it",
			modproxy.ErrChanged, platforms(rec.Zips, offered.Zips), stamp(rec.Time), describe(rec.Source), describe(offered.Source))
	case rec.IsSigningKeys():
		err = fmt.Errorf("%w: it is signed by %s, and releases of %s by %s since %s; if its publisher has changed keys and says so: "+
			"modproxy ledger accept %s --key %s --reason …",
			modproxy.ErrChanged, nameKeys(offered.Keys), rec.Module, nameKeys(rec.Keys), stamp(rec.Time), rec.Module, offered.Keys.All()[0])
	}
	r.observe(Event{Kind: Drifted, ModuleVersion: d.ModuleVersion, Record: rec, Drift: d, Err: err})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// sighted returns the record of a version that is p now.
func sighted(v modproxy.ModuleVersion, p *modproxy.Package) Record {
	return Record{ModuleVersion: v, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Source: p.Source, Time: time.Now(), Facts: p.Facts}
}

func describe(s modproxy.Source) string {
	where := cmp.Or(s.URL, "an unknown source")
	if s.Commit != "" {
		where += " at commit " + s.Commit
	}
	return where
}
