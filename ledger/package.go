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
// durable before Package returns. If Next has another commit of the recorded repository, or finds nothing any more, Package
// returns what the recorded source has, if that is what the ledger has.
//
// The package of a provider may still come, and is compared when it has arrived.
//
// Errors are those of Next; ErrChanged for content that is not what is recorded; ErrUnavailable when the ledger fails, and for the
// package of a provider for one platform whose release is not recorded; ErrDenied for a release that Signers does not take.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
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
	rec, absent := r.recordedAs(ctx, v)
	if absent != nil {
		return nil, err
	}
	own := rec.Ref == v // else another spelling was recorded, which the registry may have alone
	rec.Ref = v
	moved := errors.Is(err, modproxy.ErrChanged) && rec.Source.Commit != "" &&
		offered.URL == rec.Source.URL && offered.Commit != "" && offered.Commit != rec.Source.Commit
	if !moved && !(own && errors.Is(err, modproxy.ErrNotFound)) { // if it is not found, it was withdrawn, or its tag was deleted
		return nil, err
	}
	p, errRecorded := r.Next.PackageAt(ctx, rec)
	if errRecorded == nil && (p.Source != rec.Source || !rec.Is(p.Sum, p.Subdir)) {
		errRecorded = errors.Join(errors.New("it is not what is recorded"), p.Close())
	}
	if errRecorded == nil && !own {
		if errRecorded = r.Compare(ctx, sighted(v, p)); errRecorded != nil {
			p.Close()
		}
	}
	if errRecorded == nil {
		return p, nil
	}
	return nil, notRecorded(err, errRecorded)
}

// recorded returns the record of v in this spelling. Its errors are those of recordedAs.
func (r *Registry) recorded(ctx context.Context, v modproxy.Ref) (Record, error) {
	rec, err := r.recordedAs(ctx, v)
	if err == nil && rec.Ref != v {
		err = fs.ErrNotExist
	}
	return rec, err
}

// recordedAs returns the record that counts for v, which may be of another spelling. Its error is [fs.ErrNotExist] if there is none,
// or none with a source that could be asked.
func (r *Registry) recordedAs(ctx context.Context, v modproxy.Ref) (Record, error) {
	rec, err := r.Ledger.Lookup(ctx, v)
	if err == nil && (rec.Source.URL == "" || v.IsModuleVariant() && rec.Source.Commit == "") {
		err = fs.ErrNotExist
	}
	return rec, err
}

// notRecorded returns the error for a version about which the registry has said err, and for which the recorded source gave
// another error. If that source is unavailable, it is not known that the version is gone.
func notRecorded(err, errRecorded error) error {
	if named := (*modproxy.Error)(nil); errors.As(errRecorded, &named) {
		errRecorded = named.Err // the question is known
	}
	if errors.Is(err, modproxy.ErrNotFound) && errors.Is(errRecorded, modproxy.ErrUnavailable) {
		return fmt.Errorf("%w; the registry does not have it any more: %v", errRecorded, err)
	}
	return fmt.Errorf("%w; the recorded source does not have it: %v", err, errRecorded) // %v: err is what is wrong
}

// Compare returns an error unless a version, which is offered as something, is that. It is recorded where there is no
// record, with the keys that have signed it if it is the first release of a provider. A release that has all packages which are
// recorded of it, and was signed by a key that may do that, is recorded in the place of what was.
//
// Errors are those of Package that are not of Next.
func (r *Registry) Compare(ctx context.Context, offered Record) error {
	v := offered.Ref
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
			r.observe(Event{Kind: Recorded, Ref: v, Record: rec})
			return nil
		}
		if errors.Is(err, modproxy.ErrChanged) { // another one was added meanwhile
			rec, err = r.Ledger.Lookup(ctx, v)
		}
	}
	switch {
	case err != nil:
		return r.failed(ctx, v, err)
	case rec.Is(offered.Sum, offered.Subdir) && rec.Ref != v:
		return r.spell(ctx, rec, offered)
	case rec.Is(offered.Sum, offered.Subdir):
		return nil
	case v.IsProvider():
		return r.renew(ctx, rec, offered)
	}
	return r.drifted(ctx, rec, offered)
}

// spell records a version that is recorded with the same content in another spelling.
func (r *Registry) spell(ctx context.Context, rec, offered Record) error {
	err := r.Ledger.Add(ctx, offered)
	switch {
	case errors.Is(err, modproxy.ErrChanged): // other content was accepted meanwhile
		return r.drifted(ctx, rec, offered)
	case err != nil:
		return r.failed(ctx, offered.Ref, err)
	}
	r.observe(Event{Kind: Recorded, Ref: offered.Ref, Record: offered})
	return nil
}

// failed tells that the ledger did not do something for v, and returns the error.
func (r *Registry) failed(ctx context.Context, v modproxy.Ref, err error) error {
	if ctx.Err() == nil {
		r.observe(Event{Kind: Failed, Ref: v, Err: err})
	}
	return fmt.Errorf("ledger: %w", err)
}

// drifted keeps the observation that what is offered is not what rec says, and returns the error that people read.
func (r *Registry) drifted(ctx context.Context, rec, offered Record) error {
	d := Drift{
		Ref: rec.Ref, Recorded: rec.Sum, Offered: offered.Sum, Source: offered.Source, Time: time.Now(), Facts: offered.Facts,
	}
	was, is := string(rec.Sum), string(offered.Sum)
	if offered.Ref != rec.Ref {
		was += ", as " + rec.Address.String() + ","
	}
	if !rec.Is(rec.Sum, offered.Subdir) {
		d.Subdir = cmp.Or(offered.Subdir, ".")
		was += ", directory " + rec.Subdir + ","
		is += ", directory " + d.Subdir + ","
	}
	if err := r.Ledger.AddDrift(ctx, d); err != nil && ctx.Err() == nil {
		r.observe(Event{Kind: Failed, Ref: d.Ref, Err: err})
	}
	err := fmt.Errorf("%w: it was %s when it was recorded, %s, from %s, and is %s now, from %s "+
		"(operator: \"modproxy ledger drift\" shows it, and the command that accepts it)",
		modproxy.ErrChanged, was, stamp(rec.Time), describe(rec.Source), is, describe(offered.Source))
	switch {
	case rec.Zips != "":
		err = fmt.Errorf("%w: its packages for %s were others when it was recorded, %s, from %s, than they are now, from %s "+
			"(operator: \"modproxy ledger drift\" shows it, and the command that accepts it)",
			modproxy.ErrChanged, platforms(rec.Zips, offered.Zips), stamp(rec.Time), describe(rec.Source), describe(offered.Source))
	case rec.Variant.Kind == modproxy.KeysVariant:
		err = fmt.Errorf("%w: it is signed by %s, and releases of %s by %s since %s (operator: if its publisher has changed keys and says so, run "+
			"modproxy ledger accept %s --key %s --reason …; '%s/%s/*' is for all its providers)",
			modproxy.ErrChanged, nameKeys(offered.Keys), rec.Address, nameKeys(rec.Keys), stamp(rec.Time), rec.Address, offered.Keys.All()[0],
			rec.Host, rec.Namespace)
	}
	r.observe(Event{Kind: Drifted, Ref: d.Ref, Record: rec, Drift: d, Err: err})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// sighted returns the record of a version that is p now.
func sighted(v modproxy.Ref, p *modproxy.Package) Record {
	return Record{Ref: v, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Source: p.Source, Time: time.Now(), Facts: p.Facts}
}

func describe(s modproxy.Source) string {
	where := cmp.Or(s.URL, "an unknown source")
	if s.Commit != "" {
		where += " at commit " + s.Commit
	}
	return where
}
