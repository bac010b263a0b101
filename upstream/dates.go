package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/upstream/ask"
)

const (
	datesRate   = 4    // requests for dates per second to one host, without requests that a client waits for
	datesTurns  = 4    // requests for dates at a time
	datesQueue  = 1024 // requests for dates that wait for a slot
	maxDateless = 5    // versions of one address, the newest first, that are tried before the address counts as one without dates
)

// Published asks m's registry when versions were published. versions are the newest first.
//
// The public registry has an API below /v2/ beside that of modules below /v1/, with the dates of all versions of a module. If the
// registry answers there, dates has these dates, and rest is nil. Other registries, and all registries of providers, have at most
// one document for each version. Published then only finds out whether the registry has dates at all: it asks about up to five
// versions, one after another, until one has a date. rest are the other versions: call [Client.PublishedOf] for them. If none has
// a date, dates and rest are nil.
//
// dates has no entry for a version whose date the registry does not give. Errors: [modproxy.ErrUnavailable].
func (c *Client) Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error) {
	switch m.Kind() {
	case modproxy.Module:
		h, err := c.history(ctx, m)
		switch {
		case err == nil:
			return datesOf(h), nil, nil
		case inTrouble(ctx, err):
			return nil, nil, modproxy.Wrap("dates", m.At(""), err)
		}
	case modproxy.Provider:
	}
	for i, version := range versions[:min(len(versions), maxDateless)] {
		at, err := c.dateOf(ctx, m.At(version))
		switch {
		case err != nil && inTrouble(ctx, err):
			return nil, nil, modproxy.Wrap("dates", m.At(version), err)
		case !at.IsZero():
			return map[string]time.Time{version: at}, append(versions[:i:i], versions[i+1:]...), nil
		}
	}
	return nil, nil, nil
}

// datesOf returns the dates in h by version. If a version has several dates, the latest counts.
func datesOf(h *modproxy.History) map[string]time.Time {
	dates := map[string]time.Time{}
	for _, v := range h.Versions {
		if v.Published.After(dates[v.Version]) {
			dates[v.Version] = v.Published
		}
	}
	return dates
}

// PublishedOf asks v's registry when v was published. For a module it reads the document about v; for a provider, the
// time of the signature. The time is zero if the registry gives no date. In the background ([modproxy.InBackground]), a host
// receives at most four requests for dates per second; a provider needs two. Errors: [modproxy.ErrUnavailable], also if the
// registry denies an answer.
func (c *Client) PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error) {
	at, err := c.dateOf(ctx, v)
	answered, _ := errors.AsType[*fetch.Answered](err)
	switch {
	case err == nil:
		return at, nil
	case errors.Is(err, modproxy.ErrDenied):
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case inTrouble(ctx, err), answered != nil && answered.Code >= http.StatusInternalServerError:
	default: // the registry has no document with a date
		return time.Time{}, nil
	}
	return time.Time{}, modproxy.Wrap("dates", v, err)
}

// dateOf is PublishedOf with all errors: registries that describe no versions answer in many ways.
func (c *Client) dateOf(ctx context.Context, v modproxy.Ref) (at time.Time, err error) {
	leave, err := c.pace(v.Address).wait(ctx, v.Address)
	if err == nil {
		defer leave()
		at, err = c.publishedOf(ask.Paced(ctx), v)
	}
	return at, err
}

func (c *Client) publishedOf(ctx context.Context, v modproxy.Ref) (at time.Time, err error) {
	switch v.Kind() {
	case modproxy.Module:
		d, err := c.Details(ctx, v)
		if err == nil {
			at = d.Published
		}
		return at, err
	case modproxy.Provider:
	}
	leave, err := c.limitsOf(serviceOf{v.Host, providersV1}).sideRequest(ctx)
	if err != nil {
		return at, err
	}
	defer leave()
	d, err := c.askAnyDownload(ctx, v)
	if err != nil {
		return at, err
	}
	c.described.Add(v, d, locationLife, 0)
	_, signer, err := c.verified(ctx, v.Address, d)
	return signer.Time, err
}

// pace limits the requests for dates that no client waits for.
type pace struct {
	queue *slots.Queue // by client
	rate  *rate.Limiter
}

func newPace() *pace {
	return &pace{slots.New(datesTurns, datesTurns, 0, datesQueue), rate.NewLimiter(datesRate, 2)}
}

// pace returns the pace of m's registry.
func (c *Client) pace(m modproxy.Address) *pace {
	return c.paces.GetOrAdd(m.Host, newPace(), memory.Forever, 0)
}

// wait waits until a question about m may be sent. A question about a provider counts as two requests to the host of
// its files.
func (p *pace) wait(ctx context.Context, m modproxy.Address) (leave func(), err error) {
	if !modproxy.IsBackground(ctx) {
		return func() {}, nil
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-modproxy.BroughtForward(ctx):
			cancel()
		case <-waiting.Done():
		}
	}()
	client := modproxy.ClientOf(ctx).Name
	leave = func() { p.queue.Give(client) }
	if err = p.queue.Take(waiting, client); err == nil {
		requests := 1 // for one date
		switch m.Kind() {
		case modproxy.Provider:
			requests = 2
		case modproxy.Module:
		}
		if err = p.rate.WaitN(waiting, requests); err == nil {
			return leave, nil
		}
		leave()
	}
	if ctx.Err() == nil && !modproxy.IsBackground(ctx) { // a client waits for it by now
		return func() {}, nil
	}
	return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, ask.ErrBusy, err)
}

// inTrouble reports whether err, of a question in ctx, is about the state of the registry and not about its content.
func inTrouble(ctx context.Context, err error) bool {
	why, _ := ask.Failure(err)
	_, later := errors.AsType[*modproxy.RetryLater](err)
	return why != nil || later || ctx.Err() != nil || errors.Is(err, ask.ErrBusy)
}

// besideV1 returns the URL of modules.v2 for that of modules.v1, and of providers.v2 for that of providers.v1.
func besideV1(base *url.URL) (*url.URL, error) {
	for _, what := range []string{"modules/", "providers/"} {
		if strings.HasSuffix(base.EscapedPath(), "/v1/"+what) {
			return base.Parse("../../v2/" + what)
		}
	}
	return nil, fmt.Errorf("%w: there is no /v2/ beside %s", modproxy.ErrNotFound, base.Redacted())
}
