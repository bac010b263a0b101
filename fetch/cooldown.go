package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/memory"
)

// cooldowns records which hosts answered with Retry-After, for all fetches.
type cooldowns struct {
	byHost memory.Cache[string, cooldown]
}

// cooldown is the pause that a host asked for.
type cooldown struct{ began, until time.Time }

// note records the Retry-After in err, the result of a fetch, for the host that answered.
func (c *cooldowns) note(err error) {
	var later *modproxy.RetryLater
	var answered *Answered
	if !errors.As(err, &later) || !errors.As(err, &answered) || answered.Host == "" {
		return
	}
	now := time.Now()
	left := min(later.After.Sub(now), maxLater)
	c.byHost.Add(answered.Host, cooldown{now, now.Add(left)}, 2*left, int64(len(answered.Host)))
}

// check returns a [modproxy.RetryLater] if the host of s must not be asked yet.
func (c *cooldowns) check(s Source) error {
	host := hostOf(s)
	if asked, held := c.byHost.Get(host); held && host != "" && time.Now().Before(asked.until) {
		return later(host, asked.until)
	}
	return nil
}

// later returns the error for a host that asked for a pause.
func later(host string, until time.Time) error {
	why := fmt.Errorf("%w: %s wants to be left alone for now", modproxy.ErrUnavailable, host)
	return &modproxy.RetryLater{After: until, Err: why}
}

// wait waits until the host of s may be asked. Background fetches wait twice as long. If the wait would be too long,
// the error is a [modproxy.RetryLater].
func (c *cooldowns) wait(ctx context.Context, s Source) error {
	host := hostOf(s)
	if host == "" {
		return nil
	}
	defer modproxy.MeterOf(ctx).Begin()() // meanwhile other downloads use the slot of this download
	for {
		asked, held := c.byHost.Get(host)
		if !held {
			return nil
		}
		until, forward := asked.until, (<-chan struct{})(nil)
		if modproxy.IsBackground(ctx) {
			until, forward = until.Add(until.Sub(asked.began)), modproxy.BroughtForward(ctx)
		}
		pause := time.Until(until)
		if pause <= 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); pause > maxPause || ok && time.Until(deadline) <= pause {
			return later(host, until)
		}
		select {
		case <-time.After(pause):
		case <-forward:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hostOf returns the host that s names. It is empty for the form user@host:path, which is for ssh.
func hostOf(s Source) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Host), ":443")
}
