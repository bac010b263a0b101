// Package nested is a registry whose packages have no sources of their own: what the module calls in a package name by
// git::, https or a shorthand is fetched, too, and the package is served with addresses of this proxy in their place.
//
// Invariant: a package that is served in this form has no source left that a client would fetch past the proxy, but those
// that are reported; it is refused as a whole if one of them cannot be had. It is the same whenever it is made again.
//
// # Names
//
// Everything is kept and recorded as a version that was made of the one that a client asks for (see
// [modproxy.Ref.Made]), by which policy, tokens and credentials hold for it as for that:
//
//	1.2.0                             the package of the registry, as its author made it: pristine
//	1.2.0+modproxy.source.HASH        what a location is, wherever in the version it was found; HASH is of the location
//	1.2.0+modproxy.rewritten.HASH     the pristine package, or that of a source, in the form in which it is served; HASH is
//	                                  of its sum and of all that is changed in it, and so of how one comes from the other
//	1.2.0+modproxy.derived.SUM        a record only: clients are served the version as a package with that sum
//	1.2.0+modproxy.nested.BASE.SUM    a record only: what is at the address of the source that is, or was when it was
//	                                  pristine, a package with that sum
//
// The ledger has a record of each, with the source and commit for the first two, and the public URL where that is part of the
// content. A location is looked up once for a version, and stays what it was then: a branch does not move, and neither does
// what other versions have.
//
// The last of these stands in packages, in the path of a URL. BASE is a hash of the public URL and of all that the version's
// locations are, so that what is at an address never changes. The version itself is at 1.2.0+modproxy.at.BASE, with a hash of
// the public URL only; what is at the path without that is pristine. So it is with the option off or another public URL, too.
//
// # Who may read a source
//
// What stands in a package cannot be signed for somebody, or for some time. Its address is a capability: whoever has it may
// read what is there, without a token. It has the sum of the content, which nobody knows who has neither read that nor the
// package that calls it; and it opens these bytes only, of this version only. An address that is signed without an end would
// do no more, and every package would change with the key. What is refused for everybody of the version is refused of its
// sources: a block of it holds for them, and ends a transfer.
//
// # The form
//
// In the files of all directories but [tfconfig.IsExampleOrTest], and what they call, the text of the attribute "source" is
// replaced if it is a literal, or made of literals and locals, that [modproxy.ParseLocation] reads, and names git or http. Nothing
// else in a file changes. What depends on a variable, or is dynamic, or has another getter, stays as it is, and is told to Observer and in the notes of the package. Sources
// may call each other: an address does not depend on what the package there calls, so a cycle ends where it began.
package nested

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/tfconfig"
)

// Cache keeps packages, and has them fetched.
type Cache interface {
	modproxy.Registry
	// Has reports whether the package of a version is kept and counts, as far as that is known without reading it.
	Has(ctx context.Context, v modproxy.Ref) (bool, error)
	// Keep keeps a package, whose version the ledger has as that. It does not close it.
	Keep(ctx context.Context, v modproxy.Ref, p *modproxy.Package) error
}

// Ledger knows what every version is, and what was made of it.
type Ledger interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
	Add(ctx context.Context, rec modproxy.Record) error
}

// Observer is told what was found in a version whenever that is looked up anew, as when it is first asked for.
type Observer interface {
	// Nested is told how many sources are fetched, and those that stay as they are.
	Nested(v modproxy.Ref, sources int, left []string)
}

// Registry answers with packages of Next in which no source is left. It is safe for concurrent use.
type Registry struct {
	Next     Cache
	Ledger   Ledger
	Reader   *tfconfig.Reader
	Sources  *Sources // below Next; nil offline
	URL      string   // where clients see this proxy, without a slash at the end
	Scratch  string   // the directory for packages in the making
	Limits   pack.Limits
	Observer Observer

	once    sync.Once
	base    string
	plans   memory.Cache[modproxy.Ref, *plan]
	invalid memory.Cache[modproxy.Ref, error] // why versions have no plan
	flights flight.Group[modproxy.Ref, *plan]
	turns   *slots.Queue // of the versions that are prepared, by publisher

	work *flight.Pool
}

// form changes whenever something else is made of the same packages.
const form = "modproxy nested 2"

const (
	maxSources  = 4096                    // whose locations are remembered
	maxPlans    = 64 << 20                // bytes of plans in memory
	planFor     = 24 * time.Hour          // a plan is remembered
	invalidFor  = time.Minute             // the reason why there is none
	maxPrepared = 64                      // versions at a time
	maxWaiting  = 1024                    // further ones
	prepareFor  = time.Hour               // at most; each fetch has less
	tellWithin  = 3500 * time.Millisecond // for Location: some clients give it five seconds
)

// Base returns the value of the [modproxy.BaseVariant] that clients of a public URL are served.
func Base(url string) string { return hash(form, url)[:16] }

// hash returns the hash of strings, of which none has a line break.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}

func (r *Registry) start() {
	r.base = Base(r.URL)
	r.plans.Limit = maxPlans
	r.turns = slots.New(maxPrepared, maxPrepared*3/4, maxPrepared/8, maxWaiting)
	r.work = flight.NewPool(0)
	r.flights.Pool, r.flights.Timeout = r.work, prepareFor
}

// Close ends what goes on in the background, and waits for its end. Nothing is prepared afterwards. Next is closed after it.
// Its error is that something still goes on when ctx ends.
func (r *Registry) Close(ctx context.Context) error {
	r.once.Do(r.start)
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

// Location returns the answer of Next, and has the sources fetched, which providers do not have. It waits for them a little, as clients show people the
// error of this question.
//
// Errors: those of Next; [modproxy.ErrNotFound] for what was made; why a source could not be had.
func (r *Registry) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if v.IsProvider() {
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

// Package opens what is at a path of this proxy: a version as it is, or what was made of it.
//
// Errors: those of Next; [modproxy.ErrNotFound] for what was made for another public URL, or is no source of the version; why
// a source could not be had.
func (r *Registry) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	if v.IsProvider() {
		return r.Next.Package(ctx, v)
	}
	r.once.Do(r.start)
	of := v.Base()
	base, sum, isSource := v.NestedSum()
	switch v.Variant.Kind {
	case modproxy.NoVariant:
		return r.Next.Package(ctx, v)
	case modproxy.NestedVariant: // nothing is done for somebody who has guessed
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
			n = plan.pinned[sum]
		}
		if n == nil || isSource && base != plan.base {
			why := fmt.Errorf("%w: this address was for another public URL, or another source: install again", modproxy.ErrNotFound)
			return nil, modproxy.Wrap("package", of, why)
		}
		p, err := r.Next.Package(ctx, n.served)
		if err == nil || try == 2 || ctx.Err() != nil || n.served == n.key {
			return p, err
		}
		// It was evicted meanwhile, or is damaged, and then nothing is kept any more.
	}
}

// Bring returns when all is kept that clients are served of a version.
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

// prepare makes what clients are served of a version, once for all that ask at the same time, and goes on when they have
// gone. The result is the [plan] of the version.
func (r *Registry) prepare(ctx context.Context, v modproxy.Ref) (*flight.Call[*plan], error) {
	r.once.Do(r.start)
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

// prepared is prepare, for one.
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

// planOnce is plan, unless there was none a moment ago.
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

// caught is deferred by what works on v: a panic of it becomes its error.
func caught(v modproxy.Ref, err *error) {
	if p := recover(); p != nil {
		*err = modproxy.Wrap("package", v, modproxy.Fault(p))
	}
}

// unknown is the error for what the ledger cannot say or take.
func unknown(err error) error { return fmt.Errorf("%w: ledger: %w", modproxy.ErrUnavailable, err) }
