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
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/hedge"
	"github.com/modproxy/modproxy/internal/memory"
)

// service is a service of a registry, by its name in the discovery document.
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

// discovered is the result of service discovery for a host.
type discovered struct {
	final    *url.URL                   // the URL of the document, after redirects
	services map[string]json.RawMessage // services of a registry; nil if unknown
	others   map[string]string          // see [Client.OtherServices]
	at       time.Time                  // the time of the last success
	err      error                      // of the last try, nil if it succeeded
	tried    time.Time                  // the time of the last try
}

// base returns the base URL of a registry's service: the configured one, or the one from remote service discovery
// (https://developer.hashicorp.com/terraform/internals/remote-service-discovery).
func (c *Client) base(ctx context.Context, s serviceOf) (*url.URL, error) {
	h := c.cfg.Hosts[s.host]
	switch s.service {
	case modulesV2, moduleDocs, moduleLists, providersV2, providerDocs, providerTexts:
		base, err := c.base(ctx, serviceOf{s.host, s.protocol()})
		if err == nil && (s.service == modulesV2 || s.service == providersV2 || s.service == providerTexts) {
			base, err = besideV1(base)
		}
		if err == nil && s.service == providerTexts {
			return base.Parse("../provider-docs/")
		}
		return base, err
	case tofuDocs, tofuProviderDocs:
		base, err := serviceURL(nil, h.Docs)
		if err != nil {
			return nil, err
		}
		if s.service == tofuProviderDocs {
			return base.Parse("registry/docs/providers/")
		}
		return base.Parse("registry/docs/modules/")
	case modulesV1, providersV1, others:
	}
	if set := map[service]string{modulesV1: h.Modules, providersV1: h.Providers}[s.service]; set != "" {
		return serviceURL(nil, set)
	}
	now := time.Now()
	known, _ := c.found.Get(s.host)
	if err := known.err; err != nil && now.Sub(known.tried) < discoveryPause || known.fresh(s.service, now) {
		return known.usable(s.service, now)
	}
	call, err := c.look(ctx, s.host)
	if err != nil {
		return nil, err
	}
	late := time.After(hedge.Late())
	for {
		select {
		case <-call.Done():
			found, err := call.Result()
			if err != nil {
				return nil, err
			}
			return found.usable(s.service, now)
		case <-late:
			if u, err := known.usable(s.service, now); u != nil {
				return u, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("service discovery: %w: %w", modproxy.ErrUnavailable, context.Cause(ctx))
		}
	}
}

// look requests the discovery document of a host, once for all concurrent callers, and stores the result. The result may
// be stale or have only an error.
func (c *Client) look(ctx context.Context, host string) (*flight.Call[discovered], error) {
	began := time.Now()
	return c.finding.Join(ctx, host, func(ctx context.Context) (discovered, error) {
		found, err := c.discover(ctx, host)
		if err != nil {
			found, _ = c.found.Get(host)
			if found.services != nil && found.at.After(began) { // another discovery finished first
				return found, nil
			}
			found.err, found.tried = fmt.Errorf("service discovery: %w", err), time.Now()
		}
		c.found.Add(host, found, memory.Forever, 0)
		return found, nil
	})
}

// fresh reports whether d can answer for a service without a new request. A missing service is rechecked soon.
func (d discovered) fresh(s service, now time.Time) bool {
	if d.services == nil {
		return false
	}
	life := discoveryLife
	if _, err := d.url(s); err != nil {
		life = discoveryPause
	}
	return now.Sub(d.at) < life
}

// usable returns the URL of a service from d, even if it is stale, or an error.
func (d discovered) usable(s service, now time.Time) (*url.URL, error) {
	if d.services != nil && now.Sub(d.at) < discoveryStale {
		return d.url(s)
	}
	return nil, d.err
}

// discover requests the discovery document of a host, as terraform-svchost's disco.go does.
func (c *Client) discover(ctx context.Context, host string) (d discovered, err error) {
	res, err := c.cfg.Egress.Get(ctx, egress.Request{
		URL: "https://" + host + "/.well-known/terraform.json", Header: http.Header{"Accept": {"application/json"}},
		Credentials: c.credentials(host), Redirects: 3, Attempts: 2, MaxBytes: maxDiscovery,
	})
	if err != nil {
		return d, fetch.Outgoing(err)
	}
	defer res.Body.Close()
	where := egress.Redact(res.Request.URL)
	switch {
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone:
		// A host without services does not mean that the module does not exist.
		return d, fmt.Errorf("%w: %s answered %s: %w", modproxy.ErrUnavailable, where, res.Status, ErrNoModules)
	case res.StatusCode != http.StatusOK:
		return d, c.refusal(serviceOf{host, modulesV1}, res)
	}
	if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return d, fmt.Errorf("%w: %s: %w, so it offers no services", modproxy.ErrUnavailable, where, ErrNotJSON)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return d, fetch.Outgoing(err)
	}
	if d, err = parseDiscovery(res.Request.URL, body); err != nil {
		return d, err
	}
	d.others = d.othersOf(host, c.cfg.Hosts[host])
	all := d.services // there may be many
	d.services = map[string]json.RawMessage{}
	for _, s := range []string{string(modulesV1), string(providersV1)} {
		if raw, ok := all[s]; ok {
			d.services[s] = raw
		}
	}
	return d, nil
}

// parseDiscovery reads a discovery document from the URL final. Its error is [modproxy.ErrUnavailable]: the registry
// cannot be used at present, and nothing is known about its modules.
func parseDiscovery(final *url.URL, document []byte) (discovered, error) {
	d := discovered{final: final, at: time.Now()}
	if err := json.Unmarshal(document, &d.services); err != nil || d.services == nil {
		return discovered{}, fmt.Errorf("%w: %s: the discovery document is not a JSON object", modproxy.ErrUnavailable, egress.Redact(final))
	}
	return d, nil
}

// url returns the base URL of a service. Its error is [modproxy.ErrUnavailable], as for parseDiscovery. If the registry
// offers no providers.v1, the error is [modproxy.ErrNotFound]: it has no providers.
func (d discovered) url(s service) (*url.URL, error) {
	var value string
	failed, err := modproxy.ErrUnavailable, error(nil)
	var u *url.URL
	switch raw, ok := d.services[string(s)]; {
	case !ok && s == providersV1:
		failed, err = modproxy.ErrNotFound, errors.New("the host does not offer providers.v1: it has no providers")
	case !ok:
		err = fmt.Errorf("the host does not offer modules.v1: %w", ErrNoModules)
	case json.Unmarshal(raw, &value) != nil:
		err = fmt.Errorf("%s: not a string", s)
	default:
		if u, err = serviceURL(d.final, value); err != nil {
			err = fmt.Errorf("%s: %w", s, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("service discovery: %w: %s: %w", failed, egress.Redact(d.final), err)
	}
	return u, nil
}

// serviceURL parses the base URL of a service, relative to base unless base is nil. The result ends with a slash and
// has no query.
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
