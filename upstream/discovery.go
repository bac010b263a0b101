package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// service is one that a registry offers, by its name in a discovery document.
type service string

const (
	modulesV1   service = "modules.v1"
	providersV1 service = "providers.v1"
)

// serviceOf is a service of one host.
type serviceOf struct {
	host string
	service
}

// String returns a name that no other service of a host has: no host has a space.
func (s serviceOf) String() string { return string(s.service) + " " + s.host }

// discovered is what service discovery found for one service of a host.
type discovered struct {
	base  *url.URL  // with a trailing slash; nil if unknown
	at    time.Time // when base was found
	err   error     // of the last try, nil if it succeeded
	tried time.Time // for the last time
}

// base returns the base URL of a registry's service: the configured one, or what remote service discovery says
// (https://developer.hashicorp.com/terraform/internals/remote-service-discovery).
func (c *Client) base(ctx context.Context, s serviceOf) (*url.URL, error) {
	h := c.cfg.Hosts[s.host]
	switch s.service {
	case modulesV2, moduleDocs, moduleLists:
		base, err := c.base(ctx, serviceOf{s.host, modulesV1})
		if err == nil && s.service == modulesV2 {
			return besideV1(base)
		}
		return base, err
	case tofuDocs:
		base, err := serviceURL(nil, h.Docs)
		if err != nil {
			return nil, err
		}
		return base.Parse("registry/docs/modules/")
	}
	if set := map[service]string{modulesV1: h.Modules, providersV1: h.Providers}[s.service]; set != "" {
		return serviceURL(nil, set)
	}
	now := time.Now()
	known, _ := c.found.Get(s)
	switch {
	case known.base != nil && now.Sub(known.at) < discoveryLife:
		return known.base, nil
	case known.err != nil && now.Sub(known.tried) < discoveryPause:
		return usable(known, now)
	}
	answer := shared(ctx, &c.finding, s.String(), discoveryTimeout, func(ctx context.Context) (any, error) {
		u, err := c.discover(ctx, s)
		found := discovered{base: u, at: time.Now()}
		if err != nil {
			found, _ = c.found.Get(s)
			if found.base != nil && found.at.After(now) { // another one was sooner
				return found.base, nil
			}
			found.err, found.tried = fmt.Errorf("service discovery: %w", err), time.Now()
		}
		c.found.Add(s, found)
		return usable(found, now)
	})
	late := time.After(lateAfter)
	for {
		select {
		case r := <-answer:
			u, _ := r.Val.(*url.URL)
			return u, r.Err
		case <-late:
			c.finding.Forget(s.String()) // the next question may find it sooner
			if u, err := usable(known, now); u != nil {
				return u, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("service discovery: %w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// usable returns what d gives: its URL, stale if need be, or its error.
func usable(d discovered, now time.Time) (*url.URL, error) {
	if d.base != nil && now.Sub(d.at) < discoveryStale {
		return d.base, nil
	}
	return nil, d.err
}

// discover asks a host for its discovery document and reads a service from it, as terraform-svchost's disco.go does.
func (c *Client) discover(ctx context.Context, s serviceOf) (*url.URL, error) {
	res, err := c.cfg.Egress.Get(ctx, egress.Request{
		URL: "https://" + s.host + "/.well-known/terraform.json", Header: http.Header{"Accept": {"application/json"}},
		Credentials: c.credentials(s.host), Redirects: 3, Attempts: 2, MaxBytes: maxDiscovery,
	})
	if err != nil {
		return nil, fetch.Outgoing(err)
	}
	defer res.Body.Close()
	where := egress.Redact(res.Request.URL)
	switch {
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		// That it offers no services is not to say that there is no such module.
		return nil, fmt.Errorf("%w: %s answered %s, so it offers no services", modproxy.ErrUnavailable, where, res.Status)
	case res.StatusCode != http.StatusOK:
		return nil, c.refusal(serviceOf{s.host, modulesV1}, res)
	}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, fmt.Errorf("%w: %s answered something else than application/json, so it offers no services",
			modproxy.ErrUnavailable, where)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fetch.Outgoing(err)
	}
	u, err := parseDiscovery(res.Request.URL, body, s.service)
	if err != nil {
		err = fmt.Errorf("%s: %w", where, err)
	}
	return u, err
}

// parseDiscovery reads a service's base URL from a discovery document that came from final. Its error is
// [modproxy.ErrUnavailable]: the registry cannot be used as it is, which says nothing about what it has. But a
// registry that offers no providers.v1 has no providers: that is [modproxy.ErrNotFound].
func parseDiscovery(final *url.URL, document []byte, s service) (u *url.URL, err error) {
	var services map[string]json.RawMessage
	if err := json.Unmarshal(document, &services); err != nil || services == nil {
		return nil, fmt.Errorf("%w: the discovery document is not a JSON object", modproxy.ErrUnavailable)
	}
	var value string
	switch raw, ok := services[string(s)]; {
	case !ok && s == providersV1:
		return nil, fmt.Errorf("%w: the host does not offer providers.v1: it has no providers", modproxy.ErrNotFound)
	case !ok:
		return nil, fmt.Errorf("%w: the host does not offer modules.v1: it is no module registry", modproxy.ErrUnavailable)
	case json.Unmarshal(raw, &value) != nil:
		return nil, fmt.Errorf("%w: %s: not a string", modproxy.ErrUnavailable, s)
	}
	if u, err = serviceURL(final, value); err != nil {
		err = fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, s, err)
	}
	return u, err
}

// serviceURL reads a service's base URL, relative to base unless that is nil, with a slash at its end and no query.
func serviceURL(base *url.URL, s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	if base != nil {
		u = base.ResolveReference(u)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Opaque != "":
		return nil, errors.New("want an http or https URL")
	case u.User != nil:
		return nil, errors.New("a service URL must not have user information")
	}
	u.RawQuery, u.Fragment, u.RawFragment, u.ForceQuery = "", "", "", false
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
		if u.RawPath != "" {
			u.RawPath += "/"
		}
	}
	return u, nil
}
