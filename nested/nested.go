// Package nested is a registry layer that serves nested sources through this proxy.
//
// A nested source is a git, https, oci or shorthand source of a module call inside a package. A client would fetch it directly, past the
// proxy. [Registry] fetches all nested sources of a version and serves the package with their addresses at this proxy instead.
//
// # Use
//
// [Sources] is the layer below the ledger and the cache: it fetches nested sources. [Registry] is the layer above the cache: it finds
// the sources in packages and rewrites them.
//
// # Invariants
//
// A served package has no source left that a client would fetch directly, except sources that are reported to Observer and in the notes
// of the package. If a source cannot be fetched, for any reason, the package of the whole version is refused. Rewriting is
// deterministic: a package that is rewritten again has the same content.
//
// # Names
//
// Each package is stored and recorded as a variant of the requested version ([modproxy.Variant]). Policy, tokens and credentials apply
// to a variant as to the version, except at the address of a nested source (see below):
//
//	1.2.0                             the package of the registry, unchanged
//	1.2.0+modproxy.source.HASH        the unchanged package of a nested source; HASH is of its location
//	1.2.0+modproxy.rewritten.HASH     one of these packages with rewritten sources; HASH is of the sum of the unchanged package
//	                                  and of all replacements, not of the result
//	1.2.0+modproxy.derived.SUM        a record only: it has the rewritten package of the version, which has this sum
//	1.2.0+modproxy.nested.CONTENT.SUM a record only: it has the served package of the nested source whose unchanged package has
//	                                  this sum; CONTENT is a hash of the public URL and of the sums of all packages of the version
//
// The ledger has a record of each. The records of the first two have the source and the commit. The location of a nested source is
// resolved once for a version. Afterwards a branch does not move for this version, and other versions have results of their own.
//
// Two more names are in URLs. Calls in a rewritten package have the address of a nested source, 1.2.0+modproxy.nested.CONTENT.SUM:
// the content at such an address never changes. The location of the version itself is 1.2.0+modproxy.at.URL, where URL is a hash of the
// public URL, which [Base] returns. A path with another public URL is not found. The path of 1.2.0 serves the unchanged package, also
// after the public URL has changed. If this layer is not in use (rewrite.nested), package rewrite returns that path.
//
// # Access to sources
//
// The address of a nested source is a capability: every client that sends it may read the content, without a token. An address in a
// package cannot be signed for one client or for a limited time. It gives access to the content of this address only.
//
// The address contains CONTENT and SUM, which have 128 and 256 bits. A client knows the address if it may read the calling package. It
// can compute the address if it knows the sums and locations of the package of the version and of all its nested sources. Records in the
// ledger have these sums. The checksum database (package app) answers a look-up only if the client may read the module and sends the name
// of the record. It serves lists of records only to administrators, or to all clients if the proxy requires no tokens.
//
// Policy for an address is that for a client without groups: if a version is denied to all clients, so are its nested sources. This ends
// transfers. A rule that denies the version to some groups does not apply to the addresses of its sources.
//
// # The form
//
// The attribute "source" of a module call is rewritten if it is a literal, or made of literals and locals, that
// [modproxy.ParseLocation] reads, and if its getter is one of Getters: git, http, https or oci. This holds in all
// directories, except directories of examples and tests ([tfconfig.IsExampleOrTest]) that no call leads to. Nothing else in a file
// changes. Other sources, such as those that depend on a variable or use another getter, stay as they are and are reported to Observer
// and in the notes of the package. Sources may call each other: an address does not depend on the calls of the package at it, so that
// cycles end.
package nested

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/tfconfig"
)

// Cache stores packages and downloads missing ones.
type Cache interface {
	modproxy.Registry
	// Exists reports whether the package of a version is stored and agrees with the ledger, as far as that is known without reading it.
	Exists(ctx context.Context, v modproxy.Ref) (bool, error)
	// Keep stores a package whose version has a record in the ledger. It does not close the package.
	Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error
}

// Ledger records the content of versions and variants.
type Ledger interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	Add(ctx context.Context, rec modproxy.Record) error
}

// Observer is notified when all packages of a version are ready. It may be called again for the same version: after a restart, after a
// day, or if the ledger has other content.
type Observer interface {
	// Nested reports the number of fetched sources, and the sources that stay as they are.
	Nested(v modproxy.Ref, sources int, left []string)
}

// Config configures a [Registry].
type Config struct {
	Next     Cache
	Ledger   Ledger
	Reader   *tfconfig.Reader
	Sources  *Sources // the layer below Next, which New tells the locations of nested sources; nil offline
	Getters  []string // the getters of the sources that are rewritten: those in the table of Sources, also offline
	URL      string   // the public URL of this proxy, without a slash at the end
	Scratch  string   // the directory for unfinished packages
	Limits   pack.Limits
	Observer Observer // may be nil
}

// Registry serves the packages of Next with rewritten sources. It is safe for concurrent use. [New] makes one.
type Registry struct {
	Config // not changed

	base    string
	plans   memory.Cache[modproxy.Ref, *plan]
	invalid memory.Cache[modproxy.Ref, error] // the reason why a version has no plan
	flights flight.Group[modproxy.Ref, *plan]
	turns   *slots.Queue // limits the versions that are being prepared, fairly by publisher

	work *flight.Pool
}

// form changes whenever the rewritten form of the same packages changes, as it does with an additional getter.
const form = "modproxy nested 3"

const (
	maxSources  = 4096                    // remembered locations
	maxPlans    = 64 << 20                // bytes of plans in memory
	planFor     = 24 * time.Hour          // lifetime of a plan in memory
	invalidFor  = time.Minute             // lifetime of the reason why planning failed
	maxPrepared = 64                      // versions at the same time
	maxWaiting  = 1024                    // versions in the queue
	prepareFor  = time.Hour               // at most; each fetch has a shorter limit
	tellWithin  = 3500 * time.Millisecond // for Location: some clients give it five seconds
)

// Base returns the value of the [modproxy.BaseVariant] for clients of a public URL. It also depends on the form of rewritten packages.
func Base(url string) string { return hash(form, url)[:16] }

// hash returns the hash of strings that contain no line breaks.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

// New returns a Registry that rewrites the packages of c.Next.
func New(c Config) *Registry {
	r := &Registry{Config: c}
	r.base = Base(r.URL)
	r.plans.Limit = maxPlans
	r.turns = slots.New(maxPrepared, maxPrepared*3/4, maxPrepared/8, maxWaiting)
	r.work = flight.NewPool(0)
	r.flights.Pool, r.flights.Timeout = r.work, prepareFor
	return r
}

// Close ends all preparations and waits for their end. Afterwards no preparation begins. Close Next after it. The error reports a
// preparation that is still running when ctx ends.
func (r *Registry) Close(ctx context.Context) error {
	r.work.Stop()
	r.work.End()
	if err := r.work.Wait(ctx); err != nil {
		return fmt.Errorf("packages with nested sources are still being prepared: %w", err)
	}
	return nil
}

// Versions returns the answer of Next.
func (r *Registry) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	return r.Next.Versions(ctx, m)
}

// Location returns the answer of Next and begins to fetch the package of a module and its nested sources. It waits until 3.5 seconds
// after the request for them, because clients show the errors of this request to users. If they are not ready then, Location returns
// without an error, and the work continues. If they are ready, the location has Kept. Providers have no nested sources: the location is
// that of Next.
//
// Errors: those of Next; [modproxy.ErrNotFound] for a variant; the error of a nested source, which is any error of package fetch or of
// Next.Package; [modproxy.ErrInvalid] for a package whose sources exceed the limits; [modproxy.RetryLater] if too many versions are
// being prepared.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if !v.IsModule() {
		return r.Next.Location(ctx, v)
	}
	asked := time.Now()
	if !v.IsListed() {
		return modproxy.Location{}, modproxy.Wrap("location", v, modproxy.ErrNotFound)
	}
	l, err := r.Next.Location(ctx, v)
	if err != nil {
		return l, err
	}
	l.Kept = false
	call, err := r.prepare(ctx, v)
	if err != nil {
		return l, err
	}
	select {
	case <-call.Done():
		_, err = call.Result()
		l.Kept = err == nil
	case <-time.After(time.Until(asked.Add(tellWithin))):
	case <-ctx.Done():
	}
	return l, err
}

// Package opens the package at a path of this proxy: the unchanged package of a version, the package of a version as clients receive it
// ([modproxy.BaseVariant]), or a nested source ([modproxy.NestedVariant]). For the last two it waits until all packages of the version
// are ready. A nested source without a record in the ledger causes no work.
//
// Errors: those of Next and of Location; [modproxy.ErrNotFound] for a variant of another public URL, for a source that the version does
// not have, and for every other variant.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if !v.IsModule() {
		return r.Next.Package(ctx, v)
	}
	of := v.Base()
	base, sum, isSource := v.NestedSum()
	switch v.Variant.Kind {
	case modproxy.NoVariant:
		return r.Next.Package(ctx, v)
	case modproxy.NestedVariant: // only recorded sources cause work, not guessed addresses
		if _, err := r.Ledger.Lookup(ctx, v); errors.Is(err, fs.ErrNotExist) {
			return nil, modproxy.Wrap("package", of, fmt.Errorf("%w: it has no such source", modproxy.ErrNotFound))
		} else if err != nil {
			return nil, modproxy.Wrap("package", of, unknown(err))
		}
	case modproxy.BaseVariant, modproxy.PlatformVariant, modproxy.SourceVariant, modproxy.RewrittenVariant,
		modproxy.ServedVariant, modproxy.KeysVariant, modproxy.UnknownVariant:
		if v.Variant == (modproxy.Variant{Kind: modproxy.BaseVariant, Value: r.base}) {
			break
		}
		return nil, modproxy.Wrap("package", of, fmt.Errorf("%w: this path was for another public URL: install again", modproxy.ErrNotFound))
	}
	for try := 1; ; try++ {
		plan, err := r.await(ctx, of)
		if err != nil {
			return nil, modproxy.Wrap("package", of, err)
		}
		n := plan.root
		if isSource {
			n = plan.bySum[sum]
		}
		if n == nil || isSource && base != plan.base {
			why := fmt.Errorf("%w: this address was for another public URL, or another source: install again", modproxy.ErrNotFound)
			return nil, modproxy.Wrap("package", of, why)
		}
		p, err := r.Next.Package(ctx, n.served)
		if err == nil || try == 2 || ctx.Err() != nil || n.served == n.key {
			return p, err
		}
		// It was evicted meanwhile, or is damaged and therefore removed.
	}
}

// Bring prepares all packages of a version for clients and returns when they are stored. Errors: those of Package.
func (r *Registry) Bring(ctx context.Context, v modproxy.Ref) error {
	_, err := r.await(ctx, v)
	return err
}

// await waits for prepare, or until ctx ends.
func (r *Registry) await(ctx context.Context, v modproxy.Ref) (*plan, error) {
	call, err := r.prepare(ctx, v)
	if err != nil {
		return nil, err
	}
	return call.Wait(ctx)
}

// prepare makes the packages of a version for clients, once for all concurrent requests, and continues when the clients have gone. The
// result is the [plan] of the version.
func (r *Registry) prepare(ctx context.Context, v modproxy.Ref) (*flight.Call[*plan], error) {
	call, err := r.flights.Join(ctx, v, func(ctx context.Context) (_ *plan, err error) {
		defer caught(v, &err)
		publisher := v.Host + "/" + v.Namespace
		turn, err := r.turns.Await(ctx, publisher, modproxy.BroughtForward(ctx))
		if err != nil {
			why := fmt.Errorf("the nested sources of too many versions are being fetched: %w", err)
			return nil, modproxy.Wrap("package", v, &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: why})
		}
		defer turn.Give()
		return r.prepared(ctx, v)
	})
	return call, modproxy.Wrap("package", v, err)
}

// prepared does the work of prepare.
func (r *Registry) prepared(ctx context.Context, v modproxy.Ref) (*plan, error) {
	var err error
	p, ok := r.plans.Get(v)
	if ok {
		ok, err = r.holds(ctx, p)
	}
	if !ok && err == nil {
		p, err = r.planOnce(ctx, v)
	}
	if err != nil {
		return nil, err
	}
	for _, n := range p.all() {
		if err := r.make(ctx, p, n); err != nil {
			return nil, err
		}
	}
	if ok {
		return p, nil
	}
	if err := r.recordNames(ctx, p); err != nil {
		return nil, modproxy.Wrap("package", v, err)
	}
	r.plans.Add(v, p, planFor, p.size())
	if r.Observer != nil {
		r.Observer.Nested(v, len(p.nodes), p.left)
	}
	return p, nil
}

// planOnce is plan, or the error of a recent plan.
func (r *Registry) planOnce(ctx context.Context, v modproxy.Ref) (*plan, error) {
	if err, known := r.invalid.Get(v); known {
		return nil, err
	}
	p, err := r.plan(ctx, v)
	if errors.Is(err, modproxy.ErrInvalid) {
		r.invalid.Add(v, err, invalidFor, 0)
	}
	return p, err
}

// caught sets err if the caller panics; defer it in functions that work on v.
func caught(v modproxy.Ref, err *error) {
	if p := recover(); p != nil {
		*err = modproxy.Wrap("package", v, modproxy.Fault(p))
	}
}

// unknown is the error for a ledger that cannot be read or written.
func unknown(err error) error { return fmt.Errorf("%w: ledger: %w", modproxy.ErrUnavailable, err) }
