package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
)

// Versions requests the list of m's versions from its registry.
func (c *Client) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	v, err := c.askVersions(ctx, m)
	return v, modproxy.Wrap("versions", m.At(""), err)
}

func (c *Client) askVersions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	var service service
	var path string
	switch m.Kind() {
	case modproxy.Module:
		service, path = modulesV1, modulePath(m, "versions")
	case modproxy.Provider:
		service, path = providersV1, providerPath(m, "versions")
	}
	read := func(res *http.Response, _ *url.URL, document []byte) (*modproxy.Versions, error) {
		v, err := modproxy.ReadVersions(m, document)
		switch {
		case errors.Is(err, modproxy.ErrNotFound):
			return nil, err
		case err != nil: // a failing upstream says nothing about the module
			return nil, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), err)
		}
		v.Time = time.Now()
		c.noteSpellings(m, v)
		return v, nil
	}
	return question(ctx, c, serviceOf{m.Host, service}, path, maxDocument, read)
}
