package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// Versions asks m's registry for its versions.
func (c *Client) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	v, err := c.askVersions(ctx, m)
	return v, failed("versions", m.At(""), err)
}

func (c *Client) askVersions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	return question(ctx, c, serviceOf{m.Host, modulesV1}, modulePath(m, "versions"), maxDocument,
		func(ctx context.Context, res *http.Response, _ *url.URL) (*modproxy.Versions, error) {
			return c.readVersions(ctx, m, res)
		})
}

// ordinaryDocument is the size up to which any number of versions documents is read at once. Most have some 10 KiB.
const ordinaryDocument = 512 << 10

// readVersions takes the answer. Reading takes several times its size, so a registry's large ones wait for a turn.
func (c *Client) readVersions(ctx context.Context, m modproxy.Module, res *http.Response) (*modproxy.Versions, error) {
	var document bytes.Buffer
	n, err := document.ReadFrom(io.LimitReader(res.Body, ordinaryDocument))
	if err == nil && n == ordinaryDocument {
		heavy := c.gate(serviceOf{m.Host, modulesV1}).heavy
		select {
		case heavy <- struct{}{}:
			defer func() { <-heavy }()
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %d other large answers of this registry are being read: %w",
				modproxy.ErrUnavailable, gateHeavy, context.Cause(ctx))
		}
		_, err = document.ReadFrom(res.Body)
	}
	if err != nil {
		return nil, fetch.Outgoing(err)
	}
	v, err := modproxy.ParseVersions(document.Bytes())
	switch {
	case errors.Is(err, modproxy.ErrNotFound):
		return nil, err
	case err != nil: // an upstream in trouble says nothing about the module
		return nil, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), err)
	}
	v.Time = time.Now()
	c.noteSpellings(m, v)
	return v, nil
}
