package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// Location asks v's registry for the location of its package, and checks that it can and may be downloaded. It
// downloads nothing. For a provider, Location returns an empty location without a request: clients do not need it. Errors are
// those of [modproxy.Registry].
func (c *Client) Location(ctx context.Context, v modproxy.Ref) (modproxy.Location, error) {
	if !v.IsModule() {
		return modproxy.Location{}, nil
	}
	s, err := c.locate(ctx, v)
	return s.Location, modproxy.Wrap("location", v, err)
}

// locate requests the location of v, and stores it for the download that follows.
func (c *Client) locate(ctx context.Context, v modproxy.Ref) (fetch.Source, error) {
	s, err := c.askLocation(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) {
		// Clients request the canonical spelling; a registry may know only its own.
		if spelling := c.spelling(ctx, v); spelling != "" {
			s, err = c.askLocation(ctx, v.Address.At(spelling))
		}
	}
	if err == nil {
		err = c.cfg.Fetch.Check(ctx, s)
	}
	if err != nil {
		return fetch.Source{}, err
	}
	c.located.Add(v, s, locationLife, 0)
	return s, nil
}

// spelling returns the registry's own spelling of v's version, if it differs from the clients' spelling, and otherwise
// an empty string. It requests the list of versions unless that was requested within [locationLife].
func (c *Client) spelling(ctx context.Context, v modproxy.Ref) string {
	if _, known := c.spelled.Peek(v.Address.At("")); known {
		return c.knownSpelling(v)
	}
	if versions, err := c.askVersions(ctx, v.Address); err == nil {
		if listed, ok := versions.Find(v.FullVersion()); ok && listed.Spelling != v.FullVersion() {
			return listed.Spelling
		}
	}
	return ""
}

// knownSpelling is spelling without a request.
func (c *Client) knownSpelling(v modproxy.Ref) string {
	spelling, known := c.spelled.Peek(v)
	if !known {
		return ""
	}
	return spelling
}

// noteSpellings records how m's registry spells versions. The entry for m itself, which marks that the list was
// requested, is added first, so that it expires first.
func (c *Client) noteSpellings(m modproxy.Address, versions *modproxy.Versions) {
	c.spelled.Add(m.At(""), "", locationLife, 0)
	for _, listed := range versions.List {
		if canonical := listed.Version.String(); canonical != listed.Spelling {
			c.spelled.Add(m.At(canonical), listed.Spelling, locationLife, 0)
		}
	}
}

func (c *Client) askLocation(ctx context.Context, v modproxy.Ref) (fetch.Source, error) {
	read := func(res *http.Response, asked *url.URL, body []byte) (s fetch.Source, err error) {
		l, own, err := parseAnswer(asked, res.Header.Get("X-Terraform-Get"), body)
		s = fetch.Source{Location: l, Module: v.Address, Direct: own != nil}
		if own != nil && *own {
			s.Own = c.credentials(v.Host)
		}
		return s, err
	}
	path := modulePath(v.Address, url.PathEscape(v.FullVersion())+"/download")
	return question(ctx, c, serviceOf{v.Host, modulesV1}, path, maxLocation, read)
}

// parseAnswer reads the location from the answer to a download request: the header that Terraform reads, or the JSON
// body that OpenTofu reads (internal/registry/client.go of each). If the body sets use_registry_credentials, own is its
// value, and the body takes precedence over the header, as in OpenTofu since 1.12.
func parseAnswer(asked *url.URL, header string, body []byte) (l modproxy.Location, own *bool, err error) {
	var fields struct {
		Location string `json:"location"`
		Own      *bool  `json:"use_registry_credentials"`
	}
	if len(body) > 0 {
		// If there is a header, a body that is not this JSON is ignored.
		if err := json.Unmarshal(body, &fields); err != nil && header == "" {
			return l, nil, fmt.Errorf("%w: the registry answered neither X-Terraform-Get nor JSON", modproxy.ErrInvalid)
		}
	}
	if fields.Own != nil && fields.Location != "" {
		u, err := asked.Parse(fields.Location)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
			return l, nil, fmt.Errorf("%w: location: want an http or https URL where use_registry_credentials is set", modproxy.ErrInvalid)
		}
		return modproxy.Location{Getter: u.Scheme, URL: u.String()}, fields.Own, nil
	}
	l, err = modproxy.ParseLocation(cmp.Or(header, fields.Location), asked)
	return l, nil, err
}
