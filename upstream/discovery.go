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
	"github.com/modproxy/modproxy/upstream/egress"
)

// discovered is what service discovery found for one host.
type discovered struct {
	modules *url.URL  // the modules.v1 base, with a trailing slash; nil if unknown
	at      time.Time // when modules was found
	err     error     // of the last try, nil if it succeeded
	tried   time.Time
}

// modules is the modules.v1 base URL of a registry: the configured one, or what
// remote service discovery says
// (https://developer.hashicorp.com/terraform/internals/remote-service-discovery).
func (c *Client) modules(ctx context.Context, host string) (*url.URL, error) {
	if configured := c.cfg.Hosts[host].Modules; configured != "" {
		return serviceURL(nil, configured)
	}
	now := time.Now()
	known, _ := c.found.Get(host)
	age := now.Sub(known.at)
	switch {
	case known.modules != nil && age >= 0 && age < discoveryLife:
		return known.modules, nil
	case known.err != nil && now.Sub(known.tried) < discoveryPause && now.Sub(known.tried) >= 0:
		return usable(known, now)
	}
	// Shared by all who ask, so it does not end with the one who asked first.
	answer := c.finding.DoChan(host, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discoveryTimeout)
		defer cancel()
		u, err := c.discoverSafely(ctx, host)
		found := discovered{modules: u, at: time.Now(), err: err, tried: time.Now()}
		if err != nil {
			found.modules, found.at = known.modules, known.at
		}
		c.found.Add(host, found)
		return found, nil
	})
	select {
	case r := <-answer:
		return usable(r.Val.(discovered), now)
	case <-ctx.Done():
		return nil, fmt.Errorf("service discovery: %w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
	}
}

// usable is what d gives: its URL, stale if need be, or its error.
func usable(d discovered, now time.Time) (*url.URL, error) {
	if d.modules != nil && (d.err == nil || now.Sub(d.at) < discoveryStale) {
		return d.modules, nil
	}
	return nil, d.err
}

// discoverSafely is discover where a panic would end the process.
func (c *Client) discoverSafely(ctx context.Context, host string) (u *url.URL, err error) {
	defer func() {
		if p := recover(); p != nil {
			u, err = nil, modproxy.Fault(p)
		}
	}()
	return c.discover(ctx, host)
}

// discover asks a host for its discovery document and reads modules.v1 from it,
// by the clients' rules (terraform-svchost disco.go).
func (c *Client) discover(ctx context.Context, host string) (*url.URL, error) {
	res, err := c.cfg.Egress.Get(ctx, egress.Request{
		URL:         "https://" + host + "/.well-known/terraform.json",
		Header:      http.Header{"Accept": {"application/json"}},
		Credentials: c.credentials(host),
		Redirects:   3,
		Attempts:    2,
		MaxBytes:    maxDiscovery,
	})
	if err != nil {
		return nil, fmt.Errorf("service discovery: %w", outgoing(err))
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		// That it offers no services is not to say that there is no such module.
		return nil, fmt.Errorf("service discovery: %w: %s answered %s, so it offers no services", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), res.Status)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("service discovery: %w", c.refusal(host, res))
	}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return nil, fmt.Errorf("service discovery: %w: %s answered something else than application/json, so it offers no services", modproxy.ErrUnavailable, egress.Redact(res.Request.URL))
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("service discovery: %w", outgoing(err))
	}
	u, err := parseDiscovery(res.Request.URL, body)
	if err != nil {
		return nil, fmt.Errorf("service discovery: %s: %w", egress.Redact(res.Request.URL), err)
	}
	return u, nil
}

// parseDiscovery reads the modules.v1 base URL from a discovery document that
// came from final. Its error is [modproxy.ErrUnavailable]: the registry cannot be
// used as it is, which says nothing about what it has.
func parseDiscovery(final *url.URL, document []byte) (*url.URL, error) {
	var services map[string]json.RawMessage
	if err := json.Unmarshal(document, &services); err != nil || services == nil {
		return nil, fmt.Errorf("%w: the discovery document is not a JSON object", modproxy.ErrUnavailable)
	}
	raw, ok := services["modules.v1"]
	if !ok {
		return nil, fmt.Errorf("%w: the host does not offer modules.v1: it is no module registry", modproxy.ErrUnavailable)
	}
	var value string
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("%w: modules.v1 is not a string", modproxy.ErrUnavailable)
	}
	u, err := serviceURL(final, value)
	if err != nil {
		return nil, fmt.Errorf("%w: modules.v1: %w", modproxy.ErrUnavailable, err)
	}
	return u, nil
}

// serviceURL reads a service's base URL. It may be relative to base, unless base
// is nil; a missing slash at its end is added, query and fragment are dropped.
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
