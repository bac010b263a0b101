package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// Catalog returns Next's answers for modules that the principal of the context may read. For other modules the error is an
// [*Outside], and for a context without a principal it is a [*Refused]. In neither case does it call Next. Lists omit modules
// that the principal may not read. An empty list does not reveal whether modules exist that the principal may not read. A
// client without a credential receives a [*Refused] if its scopes cannot cover any module of the list.
type Catalog struct {
	Next modproxy.Catalog
	Open Open
}

// Details returns the answer of Next.
func (c *Catalog) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	if err := c.Open.mayRead(ctx, "details", v); err != nil {
		return nil, err
	}
	return c.Next.Details(ctx, v)
}

// History returns the answer of Next.
func (c *Catalog) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	if err := c.Open.mayRead(ctx, "history", m.At("")); err != nil {
		return nil, err
	}
	return c.Next.History(ctx, m)
}

// Downloads returns the answer of Next.
func (c *Catalog) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	if err := c.Open.mayRead(ctx, "downloads", m.At("")); err != nil {
		return nil, err
	}
	return c.Next.Downloads(ctx, m)
}

// Text returns the answer of Next.
func (c *Catalog) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	if err := c.Open.mayRead(ctx, "document", v); err != nil {
		return nil, err
	}
	return c.Next.Text(ctx, v, id)
}

// List returns Next's answer if the principal may read the whole registry. Other principals receive the modules of the
// namespaces that they may read, one namespace after the other. Errors are [ErrOffset] and those of Next.
func (c *Catalog) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	p := PrincipalOf(ctx)
	if p.Kind == Nobody {
		return nil, &Refused{Why: "the request has no principal"}
	}
	namespaces, every := p.Scopes.namespaces(q.Host)
	if !every && q.Namespace != "" {
		namespaces = slices.DeleteFunc(namespaces, func(n string) bool { return n != q.Namespace })
	}
	if p.Kind == Anonymous && len(namespaces) == 0 {
		return nil, &Refused{Why: noCredential}
	}
	var page *modproxy.Page
	var err error
	switch {
	case every:
		page, err = c.Next.List(ctx, q)
	case q.Offset > maxSkip:
		return nil, ErrOffset
	default:
		page, err = c.some(ctx, p, q, namespaces)
	}
	switch {
	case errors.Is(err, modproxy.ErrNotFound), err == nil && len(page.Modules) == 0 && !page.More:
		return &modproxy.Page{}, nil
	case err != nil:
		return nil, err
	}
	return page, nil
}

const (
	listSize = 100 // modules in a page requested from Next; registries return no more
	maxMore  = 20  // pages for one answer, in addition to the first page of each namespace
	maxSkip  = 1000
	within   = 5 * time.Second // time limit for all requests to Next for one answer
)

// ErrOffset is the error for large offsets if the principal may not read the whole registry: List would have to count all
// modules before the offset.
var ErrOffset = fmt.Errorf("%w: offset: want at most %d, or a token for the whole registry", modproxy.ErrInvalid, maxSkip)

// some lists the modules of namespaces that p may read. It counts no other modules, because the beginning of a page, and
// whether another page follows, would reveal them. For every page it therefore starts at the first module. After some pages of
// Next it returns what it has.
func (c *Catalog) some(ctx context.Context, p Principal, q modproxy.Query, namespaces []string) (*modproxy.Page, error) {
	all := &modproxy.Page{Answered: modproxy.Answered{Hit: true}}
	skip, asked, left := q.Offset, q, len(namespaces)+maxMore
	late := &modproxy.RetryLater{
		After: time.Now().Add(within),
		Err:   fmt.Errorf("%s did not list enough readable modules within %v", q.Host, within),
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, late)
	defer cancel()
	for _, asked.Namespace = range namespaces {
		asked.Offset, asked.Limit = 0, listSize
		for more := true; more; asked.Offset += listSize {
			if left--; left < 0 && len(all.Modules) == 0 {
				return nil, fmt.Errorf("%w: %s lists too many modules of namespace %s that do not match the request", modproxy.ErrUnavailable,
					q.Host, asked.Namespace)
			}
			if left < 0 {
				return all, nil
			}
			page, err := c.Next.List(ctx, asked)
			if errors.Is(err, modproxy.ErrNotFound) {
				break
			}
			if err != nil && context.Cause(ctx) == error(late) {
				if len(all.Modules) > 0 {
					return all, nil
				}
				return nil, late
			}
			if err != nil {
				return nil, err
			}
			all.Hit, all.Stale, more = all.Hit && page.Hit, all.Stale || page.Stale, page.More
			if all.Time = cmp.Or(all.Time, page.Time); page.Time.Before(all.Time) {
				all.Time = page.Time
			}
			for _, m := range page.Modules {
				switch {
				case !p.MayRead(m.Address):
				case skip > 0:
					skip--
				case len(all.Modules) == q.Limit:
					all.More = true
					return all, nil
				default:
					all.Modules = append(all.Modules, m)
				}
			}
		}
	}
	return all, nil
}
