package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/modproxy/modproxy"
)

type locationKey struct {
	module  modproxy.Module
	version string
}

// located is what a registry said of one version's package.
type located struct {
	modproxy.Location
	// direct: the package is fetched from the URL as it is, and its format is read
	// off its first bytes.
	direct bool
	// credentials: the registry wants to be shown its own token there.
	credentials bool
}

// Location asks m's registry where the package of version is, and holds the
// answer to what can and may be fetched. Nothing is fetched.
func (c *Client) Location(ctx context.Context, v modproxy.ModuleVersion) (modproxy.Location, error) {
	m, version := v.Module, v.Version
	l, err := c.locate(ctx, m, version)
	if err != nil {
		return modproxy.Location{}, &modproxy.Error{Op: "location", Module: m, Version: version, Err: err}
	}
	return l.Location, nil
}

// locate is Location. What was located is remembered for the fetch that follows.
func (c *Client) locate(ctx context.Context, m modproxy.Module, version string) (located, error) {
	l, err := c.askLocation(ctx, m, version)
	if errors.Is(err, modproxy.ErrNotFound) {
		// Clients ask for the canonical spelling; a registry may know only its own.
		if spelling, ok := c.spelling(ctx, m, version); ok {
			l, err = c.askLocation(ctx, m, spelling)
		}
	}
	if err != nil {
		return located{}, err
	}
	if err := c.check(ctx, m, l); err != nil {
		return located{}, err
	}
	c.located.Add(locationKey{m, version}, l)
	return l, nil
}

// spelling is how the registry itself writes a canonical version, if it lists it
// and writes it in another way.
func (c *Client) spelling(ctx context.Context, m modproxy.Module, version string) (string, bool) {
	v, err := c.askVersions(ctx, m)
	if err != nil {
		return "", false
	}
	listed, ok := v.Find(version)
	return listed.Spelling, ok && listed.Spelling != version
}

func (c *Client) askLocation(ctx context.Context, m modproxy.Module, version string) (located, error) {
	return question(ctx, c, m, url.PathEscape(version)+"/download", maxLocation, func(_ context.Context, res *http.Response, asked *url.URL) (located, error) {
		return c.readLocation(m, res, asked)
	})
}

func (c *Client) readLocation(m modproxy.Module, res *http.Response, asked *url.URL) (located, error) {
	var body []byte
	switch res.StatusCode {
	case http.StatusNoContent:
	case http.StatusOK:
		var err error
		if body, err = io.ReadAll(res.Body); err != nil {
			return located{}, outgoing(err)
		}
	default:
		return located{}, c.refusal(m.Host, res)
	}
	return parseAnswer(asked, res.Header.Get("X-Terraform-Get"), body)
}

// parseAnswer reads a location from the answer to a download request: the header
// that Terraform reads, or the JSON body that OpenTofu reads
// (internal/registry/client.go of each). A body that asks for the registry's own
// credentials wins over the header, as it does for OpenTofu since 1.12.
func parseAnswer(asked *url.URL, header string, body []byte) (located, error) {
	var fields struct {
		Location string `json:"location"`
		Own      *bool  `json:"use_registry_credentials"`
	}
	if len(body) > 0 {
		// A body that is no such JSON is of no account where there is a header.
		if err := json.Unmarshal(body, &fields); err != nil && header == "" {
			return located{}, fmt.Errorf("%w: the registry answered neither X-Terraform-Get nor JSON", modproxy.ErrInvalid)
		}
	}
	if fields.Own != nil && fields.Location != "" {
		u, err := asked.Parse(fields.Location)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "" {
			return located{}, fmt.Errorf("%w: location: want an http or https URL where use_registry_credentials is set", modproxy.ErrInvalid)
		}
		return located{modproxy.Location{Getter: u.Scheme, URL: u.String()}, true, *fields.Own}, nil
	}
	if header == "" {
		header = fields.Location
	}
	l, err := modproxy.ParseLocation(header, asked)
	return located{Location: l}, err
}

// check refuses what cannot be fetched, or may not be, before anybody waits for it.
func (c *Client) check(ctx context.Context, m modproxy.Module, l located) error {
	switch l.Getter {
	case "git":
		if err := c.cfg.Git(m).Check(ctx, l.URL); err != nil {
			return fmt.Errorf("location: %w", err)
		}
		return nil
	case "http", "https":
		s, err := parseSource(l.URL, l.direct)
		if err != nil {
			return fmt.Errorf("location: %w", err)
		}
		if err := c.cfg.Egress.Check(ctx, s.url); err != nil {
			return fmt.Errorf("location: %w", outgoing(err))
		}
		return nil
	case "file":
		return fmt.Errorf("%w: the location names a local file, which modproxy never reads", modproxy.ErrDenied)
	}
	return fmt.Errorf("%w: the location uses the getter %.40q, which modproxy does not fetch: it fetches git, and archives over https", modproxy.ErrDenied, l.Getter)
}
