package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
)

// maxOffset is how many kept modules a question may leave out: each is looked at.
const maxOffset = 10_000

// List lists the modules that Next lists and the client of the context may use, or if Next does not answer, those of which
// a package is kept.
//
// Errors: those of the records.
func (c *Catalog) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	c.start()
	if c.Next != nil {
		page, err := c.Next.List(ctx, q)
		switch {
		case err == nil:
			return c.usable(ctx, page)
		case ctx.Err() != nil:
			return nil, err
		}
	}
	return c.kept(ctx, q)
}

const atOnce = 8 // modules of a page

// usable returns what of a page the client of the context may use. If that is not the version that the page has, it is the
// latest one.
func (c *Catalog) usable(ctx context.Context, page *modproxy.Page) (*modproxy.Page, error) {
	some := *page
	may := make([]*modproxy.Summary, len(page.Modules))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range page.Modules {
		group.Go(func() error {
			s := page.Modules[i]
			if err := c.Rules.CheckClient(ctx, s.ModuleVersion); err != nil {
				if !errors.Is(err, modproxy.ErrDenied) {
					return err
				}
				list, v, err := latest(ctx, c.Registry, s.Module)
				if err != nil {
					return ctx.Err() // it is not listed
				}
				s.ModuleVersion, s.Tag = v, ""
				if s.Published, s.Source, err = c.seen(ctx, v, list); err != nil {
					return err
				}
			}
			if s.Published.IsZero() {
				s.Published = page.Time.UTC()
			}
			var err error
			if s.Downloads, err = c.total(ctx, s.Module, s.Downloads); err != nil {
				return err
			}
			may[i] = &s
			return nil
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

// latest returns the latest version that a registry lists, and the list.
func latest(ctx context.Context, of Lister, m modproxy.Module) (*modproxy.Versions, modproxy.ModuleVersion, error) {
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

// summary returns what was recorded of a version.
func (c *Catalog) summary(ctx context.Context, v modproxy.ModuleVersion, list *modproxy.Versions) (*modproxy.Summary, error) {
	s := &modproxy.Summary{ModuleVersion: v}
	var err error
	if s.Published, s.Source, err = c.seen(ctx, v, list); err != nil {
		return nil, err
	}
	s.Downloads, err = c.total(ctx, v.Module, 0)
	return s, err
}

// kept lists modules of which a package is kept.
func (c *Catalog) kept(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	all, at, err := c.index.get(ctx, c.Packages)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if q.Offset > maxOffset {
		return nil, &modproxy.Lasting{Err: fmt.Errorf("offset %d: of the modules that are kept the first %d are listed", q.Offset, maxOffset)}
	}
	page := &modproxy.Page{Answered: modproxy.Answered{Time: at, Hit: true}}
	if q.Verified { // nobody has
		return page, nil
	}
	words := strings.Fields(strings.ToLower(q.Search))
	left := q.Offset
	for _, e := range all {
		if !e.selected(q, words) {
			continue
		}
		list, v, err := latest(ctx, c.Known, e.Module)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil: // it may not be used, or is not kept any more
			continue
		case left > 0:
			left--
			continue
		case len(page.Modules) == q.Limit:
			page.More = true
			return page, nil
		}
		s, err := c.summary(ctx, v, list)
		if err != nil {
			return nil, err
		}
		page.Modules = append(page.Modules, *s)
	}
	return page, nil
}

// index knows of which modules a package is kept. What it knows may be some seconds old.
type index struct {
	mu      sync.Mutex
	entries []entry
	at      time.Time // when they were read
	again   time.Time // when they may be read again
	reading chan struct{}
	err     error
}

// entry is a module that is kept.
type entry struct {
	modproxy.Module
	folded string // its address without the host, in lower case
}

const (
	rereadAfter = 3 * time.Second
	rereadShare = 20      // the reading takes no more of the time than one part in so many
	maxEntries  = 200_000 // of which the memory is some 50 MB
)

// selected reports whether q, with words in lower case, selects e.
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

// get returns the modules, sorted by their addresses, as they were at a time. It waits for the first reading only.
func (x *index) get(ctx context.Context, packages Packages) (entries []entry, at time.Time, err error) {
	x.mu.Lock()
	if x.reading == nil && !time.Now().Before(x.again) {
		x.reading = make(chan struct{})
		go x.read(context.WithoutCancel(ctx), packages)
	}
	reading, known := x.reading, !x.at.IsZero()
	x.mu.Unlock()
	if !known && reading != nil {
		select {
		case <-reading:
		case <-time.After(patience):
			return nil, at, later("the kept modules are being listed")
		case <-ctx.Done():
			return nil, at, ctx.Err()
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.at.IsZero() {
		return nil, at, x.err
	}
	return x.entries, x.at, nil
}

func (x *index) read(ctx context.Context, packages Packages) {
	began := time.Now()
	var entries []entry
	var err error
	for m, errOf := range packages.Modules(ctx) {
		if err = errOf; err == nil && len(entries) == maxEntries {
			err = fmt.Errorf("more than %d modules are kept, and they are not listed", maxEntries)
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
	close(x.reading)
	x.reading = nil
}
