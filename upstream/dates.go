package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
)

// maxDocs bounds how many versions are asked for one by one.
const maxDocs = 16

// Published asks m's registry when versions were published. One that has no /v2/ beside its /v1/ is asked for the
// document of each of the first [maxDocs] versions. Of a provider it is when the first [maxSigned] of them were signed, as
// their signers say. What a registry does not say is not in the answer, which may be there beside an error. Errors:
// [modproxy.ErrUnavailable].
func (c *Client) Published(ctx context.Context, m modproxy.Module, versions []string) (map[string]time.Time, error) {
	if m.IsProvider() {
		leave, err := c.gate(serviceOf{m.Host, providersV1}).beside(ctx)
		if err != nil {
			return nil, failed("dates", m.At(""), err)
		}
		defer leave()
		dates, err := c.signed(ctx, m, versions)
		return dates, failed("dates", m.At(""), err)
	}
	h, err := c.history(ctx, m)
	switch {
	case err == nil:
		return datesOf(h), nil
	case inTrouble(ctx, err):
		return nil, failed("dates", m.At(""), err)
	}
	dates := map[string]time.Time{}
	for _, version := range versions[:min(len(versions), maxDocs)] {
		d, err := c.details(ctx, m.At(version))
		switch {
		case err != nil && inTrouble(ctx, err):
			return dates, failed("dates", m.At(version), err)
		case err == nil && !d.Published.IsZero():
			dates[version] = d.Published
		case len(dates) == 0: // neither has it other ones, as far as that can be guessed
			return nil, nil
		}
	}
	return dates, nil
}

// inTrouble reports whether err, of a question in ctx, says more about the moment than about what a registry offers.
func inTrouble(ctx context.Context, err error) bool {
	why, _ := trouble(err)
	_, later := errors.AsType[*modproxy.RetryLater](err)
	return why != nil || later || ctx.Err() != nil
}

// besideV1 returns the URL of modules.v2 for that of modules.v1.
func besideV1(base *url.URL) (*url.URL, error) {
	if !strings.HasSuffix(base.EscapedPath(), "/v1/modules/") {
		return nil, fmt.Errorf("%w: there is no /v2/modules/ beside %s", modproxy.ErrNotFound, base.Redacted())
	}
	return base.Parse("../../v2/modules/")
}
