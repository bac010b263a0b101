// Package catalog lists modules and describes versions of modules and providers, for tools that read registries.
//
// A [Catalog] takes the answer of its Next, which asks the registry. It removes versions that the client may not use, and adds dates and
// counts that the registry does not have from the records of this proxy: a first-seen time in place of a missing date, and the downloads
// through this proxy in place of a count of zero. If Next returns an error of any kind, the Catalog makes the answer from the cached
// packages and the records, except the text of a document.
//
// Invariant: a description never causes the download of a package. A version is described only if Config.Registry lists it for the
// client of the context. Other versions, and versions that do not exist, get the same answer.
//
// The Next of a Catalog is the Catalog of package cache, whose Next is that of package upstream. If clients need tokens, auth.Catalog is
// above it.
package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strings"
	"time"
	"weak"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
)

// Config has the parts of a [Catalog].
type Config struct {
	// Next and Counts may be nil. All other fields must be set.
	Next      modproxy.Catalog // nil: no registry is asked
	Registry  Lister           // lists the versions that the client of the context may use
	Known     Lister           // likewise, but only versions that are known without a request to a registry, and it sends none
	Packages  Packages
	Ledger    Ledger
	FirstSeen FirstSeen
	Counts    Counts // nil: downloads are not counted here
	Rules     Rules
	Reader    Reader
}

// Catalog describes modules by the answers of Next, or by cached packages: see the package comment. It is safe for concurrent
// use. [New] makes one.
type Catalog struct {
	Config // not changed

	answers    memory.Cache[question, answer]
	silent     memory.Cache[modproxy.Ref, struct{}] // versions that Next has just failed to describe
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

// Packages are the cached packages. Its methods download nothing.
type Packages interface {
	// Stat returns a package without its bytes. The error is [fs.ErrNotExist] if the package is not cached.
	Stat(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error)
	// Open opens the package that Stat returns. The caller closes it.
	Open(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error)
	// Modules yields the modules that have a cached package, each once, sorted by address.
	Modules(ctx context.Context) iter.Seq2[modproxy.Address, error]
}

// Ledger returns the records of versions. The error is [fs.ErrNotExist] for a version without a record.
type Ledger interface {
	Lookup(ctx context.Context, v modproxy.Ref) (modproxy.Record, error)
}

// FirstSeen returns the recorded first-seen times of versions, and asks no registry.
type FirstSeen interface {
	Recorded(ctx context.Context, m modproxy.Address) (modproxy.FirstSeen, error)
}

// Rules are the decisions and rules of the operators.
type Rules interface {
	// CheckListed returns an error if the client of ctx may not use a version, given the first-seen times of its module. Without a
	// version, it returns an error if every version is denied. It asks no registry. The error is [modproxy.ErrDenied] for a denial.
	CheckListed(ctx context.Context, v modproxy.Ref, firstSeen modproxy.FirstSeen) error
	// CheckNamespace returns an error if the client of ctx may use no module of a namespace. Errors are those of CheckListed.
	CheckNamespace(ctx context.Context, host, namespace string) error
	// Deprecation returns the operators' deprecation of a version, or nil.
	Deprecation(ctx context.Context, v modproxy.Ref) (*modproxy.Deprecation, error)
}

// Reader reads descriptions from packages.
type Reader interface {
	// Describe sets the description of the module in the directory p.Subdir; p is open at its start. Errors: [modproxy.ErrInvalid] if
	// the package cannot be read, [modproxy.ErrUnavailable].
	Describe(ctx context.Context, p *modproxy.Package, d *modproxy.Details) error
}

const (
	soon        = time.Second      // wait for Next if there is another answer
	silentFor   = 3 * time.Second  // a request that Next did not answer is not repeated
	completeFor = 10 * time.Second // an answer completed from the records is not completed again

	answerFor  = time.Second // as long as decisions are cached
	answerSize = 1 << 10     // approximate bytes
	maxAnswers = 4 << 20

	maxParts     = 12 << 20 // bytes of descriptions in memory; one has at most 8 MiB
	maxCompleted = 12 << 20 // bytes of completed descriptions, which may share most of them
	maxHistories = 8 << 20
)

// New returns a Catalog of what the parts of config say.
func New(config Config) *Catalog {
	c := &Catalog{Config: config, turns: slots.NewSemaphore(maxDescribing)}
	c.parts.Limit, c.completed.Limit, c.histories.Limit = maxParts, maxCompleted, maxHistories
	c.counts.Limit, c.answers.Limit, c.siblings.Limit = maxCounts, maxAnswers, maxSiblings
	c.describing.Timeout = describeIn
	return c
}

// Details describes a version that Registry lists, by the answer of Next. If Next returns an error or needs more than a second, Details
// describes the version by its cached package. Without one, it waits for Next.
//
// Errors: those of Registry; those of Next if the package is not cached; [modproxy.RetryLater] while the cached package is being parsed
// for its description.
func (c *Catalog) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
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
	var describe func(context.Context, modproxy.Ref) (*modproxy.Details, error)
	switch v.Kind() {
	case modproxy.Module:
		describe = c.described
	case modproxy.Provider:
		describe = c.provider
	}
	d, err := describe(ctx, v)
	if err != nil {
		return nil, modproxy.Wrap("details", v, err)
	}
	return c.complete(ctx, d, q, list)
}

// question is a request for the description of a version by a client with some groups.
type question struct {
	modproxy.Ref
	groups groups
}

// groups are the groups of a client, as a map key.
type groups struct{ first, others string }

func groupsOf(ctx context.Context) (g groups) {
	switch all := modproxy.ClientOf(ctx).Groups; len(all) {
	case 0:
	case 1:
		g = groups{all[0], "none"}
	default:
		g = groups{all[0], fmt.Sprintf("%q", all[1:])}
	}
	return g
}

// answer is a recent answer in memory.
type answer struct {
	weak.Pointer[modproxy.Details] // the description, which another cache keeps longer
	deprecation                    modproxy.Deprecation
}

// answered returns the recent answer to q, or nil if the listed versions or the deprecation have changed.
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

// described describes a version as Next does. If Next does not answer soon, it describes the version by its cached package. Without a
// package, it waits for Next.
func (c *Catalog) described(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	if c.Next == nil {
		return c.made(ctx, v, &modproxy.NotCached{Ref: v})
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

// lists reports whether list contains a canonical version.
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

// completedKey identifies a completed description: the description, the operators' deprecation, and the siblings and versions that a
// client may see.
type completedKey struct {
	of          *modproxy.Details
	deprecation modproxy.Deprecation
	siblings    string
	listed      string
}

// complete adds to d, the answer to q, the facts that its registry does not give.
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
			known = &full // otherwise the result is remembered under the original
		}
		c.completed.Add(k, known, completeFor, known.Size())
	}
	if d.Hit && !d.Stale {
		c.answers.Add(q, answer{weak.Make(known), k.deprecation}, answerFor, answerSize)
	}
	return known, nil
}

// addRecorded sets the missing fields of d from the records.
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

// seen returns the first-seen time of a version, and the URL of its repository if it is recorded. The time is never zero.
func (c *Catalog) seen(ctx context.Context, v modproxy.Ref, list *modproxy.Versions) (at time.Time, source string, err error) {
	rec, err := c.Ledger.Lookup(ctx, v)
	if err != nil && !notExist(err) {
		return at, "", err
	}
	if strings.HasPrefix(rec.Source.URL, "https://") && v.IsModule() { // a provider's releases are not in its repository
		source = rec.Source.URL
	}
	firstSeen, err := c.FirstSeen.Recorded(ctx, v.Address)
	if err != nil {
		return at, "", err
	}
	return listedSince(firstSeen, v.Version, rec.Time, list.Time), source, nil
}

// listedSince returns the time since when a version is listed: the time from the registry, the first-seen time, or the first-seen time of
// the module. If all are missing, it returns the first of others that is not zero.
func listedSince(firstSeen modproxy.FirstSeen, version string, others ...time.Time) time.Time {
	at := firstSeen.Since(version)
	if _, seen := firstSeen.Of(version); seen && at.IsZero() {
		at = firstSeen.Module
	}
	for _, other := range append(others, time.Now()) {
		if at.IsZero() {
			at = other
		}
	}
	return at.UTC().Truncate(time.Second)
}
