package upstream

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

// Errors of Probe and of service discovery, beside those of package modproxy.
var (
	// ErrNotJSON is an [modproxy.ErrUnavailable]: something else than a registry answered, such as the login page of a network.
	ErrNotJSON = errors.New("it answered something else than application/json")
	// ErrNoModules is an [modproxy.ErrUnavailable]: the host offers no modules.v1. Probe returns it if providers.v1 is missing, too.
	ErrNoModules = errors.New("it is not a module registry")
)

// absent is a module that no registry has, and without its system a provider. A private registry answers requests for it only to clients
// that it knows.
var absent = modproxy.Address{Namespace: "modproxy", Name: "doctor", System: "none"}

// Probe reports whether a registry can be used. It requests the discovery document, unless the base URL is configured, and the
// versions of a module that does not exist, or of a provider if the registry has no modules. It does not wait for other requests. date is
// the time of the registry's clock, or zero if it is unknown.
func (c *Client) Probe(ctx context.Context, host string) (date time.Time, err error) {
	s, path := serviceOf{host, modulesV1}, modulePath(absent, "versions")
	base, err := c.base(ctx, s)
	if errors.Is(err, ErrNoModules) { // it may be a registry of providers only
		if providers, none := c.base(ctx, serviceOf{host, providersV1}); none == nil {
			s, path, base, err = serviceOf{host, providersV1}, providerPath(absent, "versions"), providers, nil
		}
	}
	if err != nil {
		return date, err
	}
	res, err := c.cfg.Egress.Get(ctx, egress.Request{
		URL: base.JoinPath(path).String(), Header: http.Header{"Accept": {"application/json"}},
		Credentials: c.credentials(host), Redirects: 5, Attempts: 1, MaxBytes: maxDocument, NoHedging: true,
	})
	if err != nil {
		return date, fetch.Outgoing(err)
	}
	defer res.Body.Close()
	date = dateOf(res.Header)
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return date, nil
	case http.StatusOK:
		if t, _, err := mime.ParseMediaType(res.Header.Get("Content-Type")); err != nil || t != "application/json" {
			return date, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), ErrNotJSON)
		}
		return date, nil
	}
	return date, c.refusal(s, res)
}

// dateOf returns the time at which an answer was sent, by its header. A cache may have stored the answer before.
func dateOf(h http.Header) time.Time {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	if age, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		date = date.Add(time.Duration(age) * time.Second)
	}
	return date
}
