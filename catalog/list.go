package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
)

// maxOffset is the largest offset in a list of cached modules. Each skipped module costs a check.
const maxOffset = 10_000

// List lists the modules that Next lists and that the client of the context may use. If Next returns an error, it lists the modules with
// a cached package.
//
// Errors: those of the records; those of Next if it is unavailable and no cached module is selected.
func (c *Catalog) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	if c.Next == nil {
		return c.kept(ctx, q)
	}
	if q.Namespace != "" { // if nothing in the namespace may be used, its name is not sent to the registry
		switch err := c.Rules.CheckNamespace(ctx, q.Host, q.Namespace); {
		case errors.Is(err, modproxy.ErrDenied):
			return &modproxy.Page{Answered: modproxy.Answered{Time: time.Now(), Hit: true}}, nil
		case err != nil:
			return nil, err
		}
	}
	page, err := c.Next.List(ctx, q)
	switch {
	case err == nil:
		return c.usable(ctx, page, q.Offset == 0)
	case ctx.Err() != nil:
		return nil, err
	}
	page, errKept := c.kept(ctx, q)
	silent := !errors.Is(err, modproxy.ErrNotFound) && !errors.Is(err, modproxy.ErrDenied)
	if errKept == nil && len(page.Modules) == 0 && silent {
		return nil, err
	}
	return page, errKept
}

const (
	atOnce   = 8 // modules of a page
	maxAsked = 4 // modules of a page for which the registry is asked, because the version on the page is denied
)

// usable returns the modules of a page that the client of the context may use. For modules with known versions, these take precedence over
// the version on the page. If the client may not use the version on the page, usable asks the registry for another one, but only on the
// first page and for the first few modules. It leaves out the others.
func (c *Catalog) usable(ctx context.Context, page *modproxy.Page, first bool) (*modproxy.Page, error) {
	some := *page
	may, refused := make([]*modproxy.Summary, len(page.Modules)), make([]bool, len(page.Modules))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, s := range page.Modules {
		group.Go(func() (err error) {
			may[i], err = c.known(ctx, s, page.Time)
			if errors.Is(err, errUnknown) {
				refused[i], err = true, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	asked := 0
	for i, s := range page.Modules {
		if !refused[i] {
			continue
		}
		if asked++; asked > maxAsked || !first {
			break
		}
		group.Go(func() (err error) {
			may[i], err = c.latestOf(ctx, c.Registry, s)
			if errors.Is(err, errUnknown) || errors.Is(err, modproxy.ErrDenied) {
				err = nil // it is not listed
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	some.Modules = nil
	for _, s := range may {
		if s != nil {
			some.Modules = append(some.Modules, *s)
		}
	}
	return &some, nil
}

// errUnknown means that no known version of a module may be used, although an unknown one may be.
var errUnknown = errors.New("no version is known that may be used")

// known returns s, which a registry listed at a time, with the latest known version. It asks no registry. It returns nil for a module
// that may not be used, and errUnknown if only the version of s may not be used.
func (c *Catalog) known(ctx context.Context, s modproxy.Summary, at time.Time) (*modproxy.Summary, error) {
	is, err := c.latestOf(ctx, c.Known, s)
	switch {
	case errors.Is(err, modproxy.ErrDenied):
		return nil, nil
	case !errors.Is(err, errUnknown):
		return is, err
	}
	firstSeen, err := c.FirstSeen.Recorded(ctx, s.Address)
	if err != nil {
		return nil, err
	}
	switch err := c.Rules.CheckListed(ctx, s.Ref, listedAs(firstSeen, s)); {
	case errors.Is(err, modproxy.ErrDenied):
		return nil, errUnknown
	case err != nil:
		return nil, err
	}
	if s.Published.IsZero() {
		s.Published = at.UTC()
	}
	s.Downloads, err = c.total(ctx, s.Address, s.Downloads)
	return &s, err
}

// latestOf returns s with the latest version that of lists. Errors: errUnknown if of lists no version; [modproxy.ErrDenied].
func (c *Catalog) latestOf(ctx context.Context, of Lister, s modproxy.Summary) (*modproxy.Summary, error) {
	list, v, err := latest(ctx, of, s.Address)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, modproxy.ErrDenied):
		return nil, err
	case err != nil:
		return nil, errUnknown
	}
	if v != s.Ref {
		s.Ref, s.Source, s.Tag, s.Published = v, "", "", time.Time{}
	}
	return &s, c.fill(ctx, &s, list)
}

// listedAs returns firstSeen with the version of s added, if it is missing, as if it was listed now.
func listedAs(firstSeen modproxy.FirstSeen, s modproxy.Summary) modproxy.FirstSeen {
	if _, seen := firstSeen.Of(s.Version); seen {
		return firstSeen
	}
	is := modproxy.VersionDates{Published: s.Published}
	if firstSeen.Module.IsZero() {
		firstSeen.Module = time.Now()
	} else {
		is.Seen = time.Now()
	}
	firstSeen.Versions = map[string]modproxy.VersionDates{s.Version: is}
	return firstSeen
}

// latest returns the list of a registry and the latest version in it.
func latest(ctx context.Context, of Lister, m modproxy.Address) (*modproxy.Versions, modproxy.Ref, error) {
	list, err := of.Versions(ctx, m)
	if err != nil {
		return nil, m.At(""), err
	}
	version, ok := list.Latest()
	if !ok {
		return nil, m.At(""), modproxy.ErrNotFound
	}
	return list, m.At(version.String()), nil
}

// fill sets the missing fields of s from the records of its version.
func (c *Catalog) fill(ctx context.Context, s *modproxy.Summary, list *modproxy.Versions) error {
	if s.Published.IsZero() || s.Source == "" {
		published, source, err := c.seen(ctx, s.Ref, list)
		if err != nil {
			return err
		}
		if s.Published.IsZero() {
			s.Published = published
		}
		s.Source = cmp.Or(s.Source, source)
	}
	var err error
	s.Downloads, err = c.total(ctx, s.Address, s.Downloads)
	return err
}

// kept lists modules with a cached package.
func (c *Catalog) kept(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	all, at, err := c.index.get(ctx, c.Packages)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if q.Offset > maxOffset {
		return nil, &modproxy.Permanent{Err: fmt.Errorf("offset %d: only the first %d cached modules are listed", q.Offset, maxOffset)}
	}
	page := &modproxy.Page{Answered: modproxy.Answered{Time: at, Hit: true}}
	if q.Verified { // cached modules are never verified
		return page, nil
	}
	words := strings.Fields(strings.ToLower(q.Search))
	left := q.Offset
	for _, e := range all {
		if !e.selected(q, words) {
			continue
		}
		list, v, err := latest(ctx, c.Known, e.Address)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // the module may not be used, or is not cached any more
			continue
		case left > 0:
			left--
			continue
		case len(page.Modules) == q.Limit:
			page.More = true
			return page, nil
		}
		s := modproxy.Summary{Ref: v}
		if err := c.fill(ctx, &s, list); err != nil {
			return nil, err
		}
		page.Modules = append(page.Modules, s)
	}
	return page, nil
}

// index lists the modules with a cached package. It may be some seconds old.
type index struct {
	mu      sync.Mutex
	entries []entry
	at      time.Time // when the entries were read
	again   time.Time // earliest time of the next reading
	reading flight.Group[struct{}, struct{}]
	err     error
}

// entry is a module with a cached package.
type entry struct {
	modproxy.Address
	folded string // its address without the host, in lower case
}

const (
	rereadAfter = 3 * time.Second
	rereadShare = 20      // reading takes at most one part in this number of the time
	maxEntries  = 200_000 // which take about 50 MB
)

// selected reports whether q selects e. words are the words of q in lower case.
func (e *entry) selected(q modproxy.Query, words []string) bool {
	if e.Host != q.Host ||
		q.Namespace != "" && !strings.EqualFold(e.Namespace, q.Namespace) ||
		q.Name != "" && !strings.EqualFold(e.Name, q.Name) ||
		q.System != "" && !strings.EqualFold(e.System, q.System) {
		return false
	}
	for _, word := range words {
		if !strings.Contains(e.folded, word) {
			return false
		}
	}
	return true
}

// get returns the modules, sorted by address, and the time when they were read. It waits for the first reading only.
func (x *index) get(ctx context.Context, packages Packages) (entries []entry, at time.Time, err error) {
	if x.due() {
		call, err := x.reading.Join(ctx, struct{}{}, func(ctx context.Context) (struct{}, error) {
			if x.due() {
				x.read(ctx, packages)
			}
			return struct{}{}, nil
		})
		if err != nil {
			return nil, at, err
		}
		if _, at, _ := x.last(); at.IsZero() {
			select {
			case <-call.Done():
				if _, err := call.Result(); err != nil {
					return nil, at, err
				}
			case <-time.After(readWithin):
				return nil, at, later("the cached modules are being listed")
			case <-ctx.Done():
				return nil, at, ctx.Err()
			}
		}
	}
	return x.last()
}

// due reports whether the modules may be read again.
func (x *index) due() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !time.Now().Before(x.again)
}

// last returns what the last reading has found. The error counts only if none has found the modules.
func (x *index) last() (entries []entry, at time.Time, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at.IsZero() {
		return nil, x.at, x.err
	}
	return x.entries, x.at, nil
}

func (x *index) read(ctx context.Context, packages Packages) {
	began := time.Now()
	var entries []entry
	var err error
	for m, errOf := range packages.Modules(ctx) {
		if err = errOf; err == nil && len(entries) == maxEntries {
			err = fmt.Errorf("more than %d modules are cached: they are not listed", maxEntries)
		}
		if err != nil {
			break
		}
		entries = append(entries, entry{m, strings.ToLower(m.Namespace + "/" + m.Name + "/" + m.System)})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err = err; err == nil {
		x.entries, x.at = entries, began
	}
	x.again = time.Now().Add(max(rereadAfter, rereadShare*time.Since(began)))
}
