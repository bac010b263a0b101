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

// Package returns Next's answer if it matches the ledger. If the version has no record, Package adds one, which is durable
// before Package returns. If Next offers another commit of the recorded repository, or has withdrawn the version, Package
// opens the recorded source and returns its content if that matches the ledger. A version that Next names more than once
// ([modproxy.Ambiguous]) counts as withdrawn.
//
// The package of a provider may still be downloading. It is compared when the download is complete.
//
// Errors are those of Next; ErrChanged for content that differs from the record; ErrUnavailable if the ledger fails, and for a
// provider's package for one platform whose release is not recorded; ErrDenied for a release signed by other keys than Signers
// names.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	switch v.Kind() {
	case modproxy.Provider:
		return r.ofProvider(ctx, v)
	case modproxy.Module:
	}
	p, err := r.Next.Package(ctx, v)
	var offered modproxy.Source
	if err == nil {
		if err = r.Compare(ctx, newRecord(v, p)); err == nil {
			return p, nil
		}
		offered, err = p.Source, asked("package", v, err)
		p.Close() // the recorded source replaces it
	}
	rec, absent := r.recordedAs(ctx, v)
	if absent != nil {
		return nil, err
	}
	own := rec.Ref == v // false: another spelling was recorded, and Next may have only that one
	rec.Ref = v
	moved := errors.Is(err, modproxy.ErrChanged) && rec.Source.Commit != "" &&
		offered.URL == rec.Source.URL && offered.Commit != "" && offered.Commit != rec.Source.Commit
	if !moved && !(own && withdrawn(err)) {
		return nil, err
	}
	p, errRecorded := r.Next.PackageAt(ctx, rec)
	if errRecorded == nil && (!p.Source.Is(rec.Source) || !rec.Is(p.Sum, p.Subdir)) {
		errRecorded = errors.Join(errors.New("it differs from the record"), p.Close())
	}
	if errRecorded == nil && !own {
		if errRecorded = r.Compare(ctx, newRecord(v, p)); errRecorded != nil {
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

// recordedAs returns the record that counts for v, which may be of another spelling. Without a record, or without a source that
// can be fetched, the error is [fs.ErrNotExist].
func (r *Registry) recordedAs(ctx context.Context, v modproxy.Ref) (Record, error) {
	rec, err := r.Ledger.Lookup(ctx, v)
	if err == nil && (rec.Source.URL == "" || v.IsModuleVariant() && rec.Source.Commit == "") {
		err = fs.ErrNotExist
	}
	return rec, err
}

// notRecorded returns the error for a version for which the registry returned err and the recorded source returned errRecorded.
// If the recorded source is unavailable, the result is ErrUnavailable only: the version may still exist there.
func notRecorded(err, errRecorded error) error {
	if withdrawn(err) && errors.Is(errRecorded, modproxy.ErrUnavailable) {
		return fmt.Errorf("%w; the registry no longer offers it: %v", errRecorded, unnamed(err))
	}
	return fmt.Errorf("%w; the recorded source does not have it: %v", err, unnamed(errRecorded)) // errRecorded is not wrapped: err is the cause
}

// unnamed returns err without its operation and version.
func unnamed(err error) error {
	if named, ok := errors.AsType[*modproxy.Error](err); ok {
		return named.Err
	}
	return err
}

// Compare returns an error unless the offered content matches the record of its version. Without a record, it adds one; for the
// first release of a provider it also records the keys that signed it. A later release of a provider replaces the recorded one
// if it contains all recorded packages and is signed by an allowed key.
//
// Errors are those of Package, except Next's.
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
		if errors.Is(err, modproxy.ErrChanged) { // a concurrent call added another record
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
	}
	switch v.Content() {
	case modproxy.ReleaseContent, modproxy.ArchiveContent:
		return r.renew(ctx, rec, offered)
	case modproxy.ModuleContent, modproxy.KeysContent:
	}
	return r.drifted(ctx, rec, offered)
}

// spell adds a record for another spelling of a version that is recorded with the same content.
func (r *Registry) spell(ctx context.Context, rec, offered Record) error {
	err := r.Ledger.Add(ctx, offered)
	switch {
	case errors.Is(err, modproxy.ErrChanged): // an operator accepted other content meanwhile
		return r.drifted(ctx, rec, offered)
	case err != nil:
		return r.failed(ctx, offered.Ref, err)
	}
	r.observe(Event{Kind: Recorded, Ref: offered.Ref, Record: offered})
	return nil
}

// failed reports to Observe that the ledger failed for v, and returns the error.
func (r *Registry) failed(ctx context.Context, v modproxy.Ref, err error) error {
	if ctx.Err() == nil {
		r.observe(Event{Kind: Failed, Ref: v, Err: err})
	}
	return fmt.Errorf("ledger: %w", err)
}

// drifted records the observation that the offered content differs from rec, and returns the error for users.
func (r *Registry) drifted(ctx context.Context, rec, offered Record) error {
	d := Drift{
		Ref: rec.Ref, Recorded: rec.Sum, Offered: offered.Sum, Source: offered.Source, Time: time.Now(), ProviderFacts: offered.ProviderFacts,
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
	switch rec.Content() {
	case modproxy.ReleaseContent:
		err = fmt.Errorf("%w: its packages for %s differ from the recorded ones: recorded %s from %s, offered now from %s "+
			"(operator: \"modproxy ledger drift\" shows it, and the command that accepts it)",
			modproxy.ErrChanged, platforms(rec.Zips, offered.Zips), stamp(rec.Time), describe(rec.Source), describe(offered.Source))
	case modproxy.KeysContent:
		err = fmt.Errorf("%w: it is signed by %s, and releases of %s by %s since %s (operator: if its publisher has changed keys and says so, run "+
			"modproxy ledger accept %s --key %s --reason …; '%s/%s/*' is for all its providers)",
			modproxy.ErrChanged, nameKeys(offered.Keys), rec.Address, nameKeys(rec.Keys), stamp(rec.Time), rec.Address, offered.Keys.All()[0],
			rec.Host, rec.Namespace)
	case modproxy.ModuleContent, modproxy.ArchiveContent:
	}
	r.observe(Event{Kind: Drifted, Ref: d.Ref, Record: rec, Drift: d, Err: err})
	return err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// newRecord returns the record of a version with the content of p, as of now.
func newRecord(v modproxy.Ref, p *modproxy.Package) Record {
	return Record{Ref: v, Sum: p.Sum, Subdir: cmp.Or(p.Subdir, "."), Source: p.Source, Time: time.Now(), ProviderFacts: p.Facts}
}

func describe(s modproxy.Source) string {
	where := cmp.Or(s.URL, "an unknown source")
	if s.Commit != "" {
		where += " at commit " + s.Commit
	}
	if s.Mirror != "" {
		where += ", by its mirror " + s.Mirror
	}
	return where
}
