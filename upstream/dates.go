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
	"github.com/modproxy/modproxy/fair"
	"github.com/modproxy/modproxy/fetch"
)

const (
	datesRate   = 4    // requests a second to one host for the dates of versions, of those that no client waits for
	datesTurns  = 4    // of them at a time
	datesQueue  = 1024 // that wait for a turn
	maxDateless = 5    // versions of one address that are asked for, the newest first, before it counts as one without dates
)

// Published asks m's registry when versions were published. One that has no /v2/ beside its /v1/, and every registry about a
// provider, is asked about one version after the other: about rest it was not asked, and [Client.PublishedOf] does. What a
// registry does not say is not in the answer. Errors: [modproxy.ErrUnavailable].
func (c *Client) Published(ctx context.Context, m modproxy.Address, versions []string) (dates map[string]time.Time, rest []string, err error) {
	if !m.IsProvider() {
		h, err := c.history(ctx, m)
		switch {
		case err == nil:
			return datesOf(h), nil, nil
		case inTrouble(ctx, err):
			return nil, nil, modproxy.Wrap("dates", m.At(""), err)
		}
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

// PublishedOf asks v's registry when v was published: for the document about it, or of a provider, for what its signer says.
// The time is zero if it does not say. In the background, a registry is sent [datesRate] requests a second. Errors:
// [modproxy.ErrUnavailable], also if the registry denies an answer.
func (c *Client) PublishedOf(ctx context.Context, v modproxy.Ref) (time.Time, error) {
	at, err := c.dateOf(ctx, v)
	answered, _ := errors.AsType[*fetch.Answered](err)
	switch {
	case err == nil:
		return at, nil
	case errors.Is(err, modproxy.ErrDenied):
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	case inTrouble(ctx, err), answered != nil && answered.Code >= http.StatusInternalServerError:
	default: // it has nothing with a date
		return time.Time{}, nil
	}
	return time.Time{}, modproxy.Wrap("dates", v, err)
}

// dateOf is PublishedOf with all errors. A registry that describes no versions has many ways to say so.
func (c *Client) dateOf(ctx context.Context, v modproxy.Ref) (at time.Time, err error) {
	leave, err := c.pace(v.Address).wait(ctx, v.Address)
	if err == nil {
		defer leave()
		at, err = c.publishedOf(paced(ctx), v)
	}
	return at, err
}

func (c *Client) publishedOf(ctx context.Context, v modproxy.Ref) (at time.Time, err error) {
	if !v.IsProvider() {
		d, err := c.Details(ctx, v)
		if err == nil {
			at = d.Published
		}
		return at, err
	}
	leave, err := c.gate(serviceOf{v.Host, providersV1}).beside(ctx)
	if err != nil {
		return at, err
	}
	defer leave()
	d, err := c.askAnyDownload(ctx, v)
	if err != nil {
		return at, err
	}
	c.described.Add(v, d)
	_, signer, err := c.verified(ctx, v.Address, d)
	return signer.Time, err
}

// pace holds back the questions for dates that no client waits for.
type pace struct {
	turns *fair.Turns // by client
	rate  *rate.Limiter
}

func newPace() *pace {
	return &pace{fair.New(datesTurns, datesTurns, 0, datesQueue), rate.NewLimiter(datesRate, 2)}
}

// pace returns the one of a registry.
func (c *Client) pace(m modproxy.Address) *pace {
	made := newPace()
	if have, ok, _ := c.paces.PeekOrAdd(m.Host, made); ok {
		return have
	}
	return made
}

type pacedKey struct{}

// paced returns a context for a question that has waited for its pace.
func paced(ctx context.Context) context.Context { return context.WithValue(ctx, pacedKey{}, true) }

// isPaced reports whether a question keeps to a pace, which a second request beside it would exceed.
func isPaced(ctx context.Context) bool {
	return modproxy.IsBackground(ctx) && ctx.Value(pacedKey{}) != nil
}

// wait waits until a question about m may be sent, which for a provider is two requests to the host that has its files.
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
	client := modproxy.AskerOf(ctx).Name
	leave = func() { p.turns.Give(client) }
	if err = p.turns.Take(waiting, client); err == nil {
		requests := 1
		if m.IsProvider() {
			requests = 2
		}
		if err = p.rate.WaitN(waiting, requests); err == nil {
			return leave, nil
		}
		leave()
	}
	if ctx.Err() == nil && !modproxy.IsBackground(ctx) { // somebody waits by now
		return func() {}, nil
	}
	return nil, fmt.Errorf("%w: %w: %w", modproxy.ErrUnavailable, errBusy, err)
}

// inTrouble reports whether err, of a question in ctx, says more about the moment than about what a registry offers.
func inTrouble(ctx context.Context, err error) bool {
	why, _ := trouble(err)
	_, later := errors.AsType[*modproxy.RetryLater](err)
	return why != nil || later || ctx.Err() != nil || errors.Is(err, errBusy)
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
