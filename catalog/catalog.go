// Package catalog answers what tools ask of a registry beside the registry protocols: which modules there are, and what each
// version of a module or a provider is. What no registry answers it makes of the packages that are kept.
//
// Invariant: nothing is fetched to describe it. A version is described only if the client of the context may use it, and
// what is absent and what it may not use look the same.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// Catalog describes modules as Next does. What Next does not answer it makes of what is kept. Its fields are set before
// the first question. It is safe for concurrent use.
type Catalog struct {
	Next     modproxy.Catalog // nil: nobody is asked
	Registry Lister           // lists what the client of the context may use
	Known    Lister           // lists the same of what is known, and asks nobody
	Packages Packages
	Ledger   Ledger
	Sights   Sights
	Counts   Counts // nil: nothing is counted here
	Rules    Rules
	Reader   Reader

	once       sync.Once
	answers    memory.Cache[question, answer]
	silent     memory.Cache[modproxy.Ref, struct{}] // of which Next has just said nothing
	parts      memory.Cache[partsKey, *modproxy.Details]
	completed  memory.Cache[completedKey, *modproxy.Details]
	siblings   memory.Cache[siblingsKey, siblings]
	histories  memory.Cache[historyKey, *modproxy.History]
	counts     memory.Cache[modproxy.Address, *modproxy.Downloads]
	describing flight.Group[modproxy.Ref, *modproxy.Details]
	turns      slots.Semaphore // for packages that are being described
	index      index
}

var _ modproxy.Catalog = (*Catalog)(nil)

// Lister lists versions, see [modproxy.Registry].
type Lister interface {
	Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error)
}

// Packages are those that are kept. Nothing is fetched.
type Packages interface {
	// Held returns a package without its bytes. Its error is [fs.ErrNotExist] when it is not kept.
	Held(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error)
	// OpenHeld opens what Held returns. The caller closes it.
	OpenHeld(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error)
	// Modules yields the modules of which one is kept, each once, sorted by their addresses.
	Modules(ctx context.Context) iter.Seq2[modproxy.Address, error]
}

// Ledger knows where versions came from. Its error is [fs.ErrNotExist] for a version without a record.
type Ledger interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// Sights knows since when versions are listed, and asks nobody.
type Sights interface {
	Recorded(ctx context.Context, m modproxy.Address) (modproxy.Sight, error)
}

// Rules are those of the operators.
type Rules interface {
	// CheckListed returns an error if the client of ctx may not use a version of a module of which sight is what is known.
	// Without a version, it does if every one is refused. It asks no registry. Its error is [modproxy.ErrDenied] for what is refused.
	CheckListed(ctx context.Context, v modproxy.Ref, sight modproxy.Sight) error
	// CheckNamespace returns an error if the client of ctx may use no module of a namespace. Errors are those of CheckListed.
	CheckNamespace(ctx context.Context, host, namespace string) error
	// Deprecation returns what operators say of a version that should not be used any more, or nil.
	Deprecation(ctx context.Context, v modproxy.Ref) (*modproxy.Deprecation, error)
}

// Reader reads packages.
type Reader interface {
	// Describe sets what p, which is open at its start, says of the module in its directory Subdir. Errors: [modproxy.ErrInvalid]
	// if it cannot be read, [modproxy.ErrUnavailable].
	Describe(ctx context.Context, p *modproxy.Package, d *modproxy.Details) error
}

const (
	soon        = time.Second      // how long Next is waited for if there is something else to say
	silentFor   = 3 * time.Second  // how long a question that Next did not answer is not asked again
	completeFor = 10 * time.Second // how long what was recorded counts without being looked up

	answerFor  = time.Second // as long as decisions count without being looked for
	answerSize = 1 << 10     // bytes, about
	maxAnswers = 4 << 20

	maxParts     = 12 << 20 // bytes of descriptions in memory, of which one has 8 MiB at most
	maxCompleted = 12 << 20 // of those with what was recorded, which may share the most of them
	maxHistories = 8 << 20
)

func (c *Catalog) start() {
	c.once.Do(func() {
		c.parts.Limit, c.completed.Limit, c.histories.Limit = maxParts, maxCompleted, maxHistories
		c.counts.Limit, c.answers.Limit, c.siblings.Limit = maxCounts, maxAnswers, maxSiblings
		c.describing.Timeout = describeIn
		c.turns = slots.NewSemaphore(maxDescribing)
	})
}

// Details describes a version that is listed, as Next does, or by its kept package.
//
// Errors: those of Registry; those of Next when the package is not kept; [modproxy.RetryLater] while it is being read.
func (c *Catalog) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	c.start()
	list, err := c.Registry.Versions(ctx, v.Address)
	if err != nil {
		return nil, err
	}
	q := question{v, groupsOf(ctx)}
	if known := c.answered(ctx, q, list); known != nil {
		return known, nil
	}
	if !lists(list, v.FullVersion()) {
		return nil, modproxy.Wrap("details", v, modproxy.ErrNotFound)
	}
	describe := c.described
	if v.IsProvider() {
		describe = c.provider
	}
	d, err := describe(ctx, v)
	if err != nil {
		return nil, modproxy.Wrap("details", v, err)
	}
	return c.complete(ctx, d, q, list)
}

// question is one for a version, of a client for which the rules of groups hold.
type question struct {
	modproxy.Ref
	groups groups
}

// groups are the groups of a client, as a key.
type groups struct{ first, others string }

func groupsOf(ctx context.Context) (g groups) {
	switch all := modproxy.AskerOf(ctx).Groups; len(all) {
	case 0:
	case 1:
		g = groups{all[0], "none"}
	default:
		g = groups{all[0], fmt.Sprintf("%q", all[1:])}
	}
	return g
}

// answer is what was answered from memory a moment ago.
type answer struct {
	weak.Pointer[modproxy.Details] // which is remembered longer
	deprecation                    modproxy.Deprecation
}

// answered returns what was just answered to q, or nil, also when other versions are listed now, or operators say something else.
func (c *Catalog) answered(ctx context.Context, q question, list *modproxy.Versions) *modproxy.Details {
	a, ok := c.answers.Get(q)
	if !ok {
		return nil
	}
	known := a.Value()
	if known == nil || known.Listed != list.ETag {
		return nil
	}
	deprecation, err := c.Rules.Deprecation(ctx, q.Ref)
	if err != nil || *cmp.Or(deprecation, &modproxy.Deprecation{}) != a.deprecation {
		return nil
	}
	return known
}

// described describes a version as Next does, or if that does not answer soon, by its kept package. Without one, Next is
// waited for.
func (c *Catalog) described(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	if c.Next == nil {
		return c.made(ctx, v, &modproxy.NotKept{Ref: v})
	}
	if _, silent := c.silent.Get(v); silent {
		if d, err := c.made(ctx, v, fs.ErrNotExist); !notExist(err) {
			return d, err
		}
	}
	wait, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	d, err := c.Next.Details(wait, v)
	if err == nil {
		return d, nil
	}
	late := wait.Err() != nil
	d, errMade := c.made(ctx, v, err)
	switch {
	case errMade == nil:
		c.silent.Add(v, struct{}{}, silentFor, 0)
	case late && errors.Is(errMade, err) && ctx.Err() == nil:
		return c.Next.Details(ctx, v)
	}
	return d, errMade
}

// lists reports whether a canonical version is in list.
func lists(list *modproxy.Versions, version string) bool {
	v, err := modproxy.ParseVersion(version)
	if err != nil {
		return false
	}
	for _, l := range list.List {
		if l.Version.Compare(v) == 0 && l.Version.String() == version {
			return true
		}
	}
	return false
}

// completedKey is a description with what operators say of the version, and the siblings and versions that a client may know
// of.
type completedKey struct {
	of          *modproxy.Details
	deprecation modproxy.Deprecation
	siblings    string
	listed      string
}

// complete returns d, which answers q, with what its registry does not know, or does not say.
func (c *Catalog) complete(ctx context.Context, d *modproxy.Details, q question, list *modproxy.Versions) (*modproxy.Details, error) {
	v := q.Ref
	deprecation, err := c.Rules.Deprecation(ctx, v)
	if err != nil {
		return nil, modproxy.Wrap("details", v, err)
	}
	others, err := c.siblingsOf(ctx, d, q)
	if err != nil {
		return nil, modproxy.Wrap("details", v, err)
	}
	k := completedKey{of: d, siblings: others.name, listed: list.ETag}
	full := *d
	full.Systems, full.Listed = others.systems, list.ETag
	if deprecation != nil {
		k.deprecation, full.Deprecation = *deprecation, deprecation
	}
	known, ok := c.completed.Get(k)
	if !ok {
		if err := c.addRecorded(ctx, &full, list); err != nil {
			return nil, modproxy.Wrap("details", v, err)
		}
		if known == nil || !known.Published.Equal(full.Published) || known.Source != full.Source || known.Downloads != full.Downloads {
			known = &full // else what was made of it is remembered
		}
		c.completed.Add(k, known, completeFor, known.Size())
	}
	if d.Hit && !d.Stale {
		c.answers.Add(q, answer{weak.Make(known), k.deprecation}, answerFor, answerSize)
	}
	return known, nil
}

// addRecorded sets what was recorded of d and is not in it.
func (c *Catalog) addRecorded(ctx context.Context, d *modproxy.Details, list *modproxy.Versions) error {
	if d.Source == "" || d.Published.IsZero() {
		published, source, err := c.seen(ctx, d.Ref, list)
		if err != nil {
			return err
		}
		if d.Published.IsZero() {
			d.Published = published
		}
		d.Source = cmp.Or(d.Source, source)
	}
	total, err := c.total(ctx, d.Address, d.Downloads)
	d.Downloads = total
	return err
}

// seen returns since when a version is listed, and where its repository is, as far as that was recorded. The time is never
// zero.
func (c *Catalog) seen(ctx context.Context, v modproxy.Ref, list *modproxy.Versions) (at time.Time, source string, err error) {
	rec, err := c.Ledger.Lookup(ctx, v)
	if err != nil && !notExist(err) {
		return at, "", err
	}
	if strings.HasPrefix(rec.Source.URL, "https://") && !v.IsProvider() { // whose releases are elsewhere than its repository
		source = rec.Source.URL
	}
	sight, err := c.Sights.Recorded(ctx, v.Address)
	if err != nil {
		return at, "", err
	}
	return listedSince(sight, v.Version, rec.Time, list.Time), source, nil
}

// listedSince returns since when a version is listed: what its registry says, when it was seen, or when its module was met.
// Else one of others counts.
func listedSince(sight modproxy.Sight, version string, others ...time.Time) time.Time {
	at := sight.Since(version)
	if _, seen := sight.Of(version); seen && at.IsZero() {
		at = sight.Met
	}
	for _, other := range append(others, time.Now()) {
		if at.IsZero() {
			at = other
		}
	}
	return at.UTC().Truncate(time.Second)
}
