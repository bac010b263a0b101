package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/upstream/egress"
)

// Versions asks m's registry for its versions.
func (c *Client) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	v, err := c.askVersions(ctx, m)
	if err != nil {
		return nil, &modproxy.Error{Op: "versions", Module: m, Err: err}
	}
	return v, nil
}

func (c *Client) askVersions(ctx context.Context, m modproxy.Module) (v *modproxy.Versions, err error) {
	err = c.ask(ctx, m, "versions", func(res *http.Response, _ *url.URL) error {
		v, err = c.readVersions(m, res)
		return err
	})
	return v, err
}

func (c *Client) readVersions(m modproxy.Module, res *http.Response) (*modproxy.Versions, error) {
	if res.StatusCode != http.StatusOK {
		return nil, c.refusal(m.Host, res)
	}
	document, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, outgoing(err)
	}
	v, err := modproxy.ParseVersions(document)
	switch {
	case errors.Is(err, modproxy.ErrNotFound):
		return nil, err
	case err != nil: // an upstream in trouble says nothing about the module
		return nil, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), err)
	}
	v.Time = time.Now()
	return v, nil
}
