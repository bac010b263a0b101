// Package upstream asks remote registries of modules and providers over the network.
//
// Make a [Client] with [New]. It implements [modproxy.Registry] and [modproxy.Catalog] for all hosts:
//
//	client, err := upstream.New(upstream.Config{Egress: egress, Fetch: table})
//	versions, err := client.Versions(ctx, address)
//
// A [Router] gives hosts to registries of other kinds.
//
// Invariants: an answer has the content that a client would receive from the registry itself, except that providers have no
// location: clients never request one. A package has the files that this client would install. A Client remembers, in memory,
// only what saves a second request shortly after the first: discovery documents, a registry's own spelling of a version if it
// differs from the canonical one (such as v1.2.0), answers with the download URL of a provider, and a location between the
// request for it and the download. All requests go through package egress.
//
// A Client asks through package ask, which repeats requests, limits them, and stops them while a registry fails.
//
// The protocols are https://developer.hashicorp.com/terraform/internals/module-registry-protocol,
// provider-registry-protocol and remote-service-discovery (beside it).
package upstream

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/internal/memory"
	"github.com/modproxy/modproxy/release"
	"github.com/modproxy/modproxy/upstream/ask"
)

// Config has the settings of a [Client].
type Config struct {
	Egress    *egress.Client
	Hosts     map[string]Host // registries with their own settings, by normalised hostname
	Fetch     *fetch.Table    // downloads the packages of modules from their locations
	Providers Providers
}

// Host has the settings of one registry.
type Host struct {
	Modules   string // the modules.v1 base URL; empty means service discovery
	Providers string // the providers.v1 base URL; empty means service discovery
	// Docs is the base URL of an API like that of https://api.opentofu.org, which describes the modules and providers of
	// this registry. If it is empty, the registry describes them itself. The token is never sent to Docs.
	Docs string
	// Token is the bearer token. It is sent over https to the registry's hostname and port, and to the origins of Modules
	// and Providers. It is sent nowhere else.
	Token egress.Secret
	Rate  int // the most questions per second; zero means 100
}

const (
	maxRemembered = 1024        // registries and locations in memory
	maxDescribed  = 64          // download documents in memory, which may be large
	locationLife  = time.Minute // between the request for a location and the download of its package

	discoveryLife    = 10 * time.Minute // the time after which discovery is repeated
	discoveryStale   = 24 * time.Hour   // the age up to which a document serves while the registry does not answer
	discoveryPause   = time.Second      // between two failed discoveries
	discoveryTimeout = 5 * time.Second

	maxDocument  = 8 << 20 // bytes of a versions document
	maxLocation  = 1 << 20 // bytes of an answer with a location
	maxDiscovery = 1 << 20 // bytes of a discovery document; the clients have the same limit
)

// Client asks upstream registries. It is safe for concurrent use.
type Client struct {
	cfg       Config
	found     memory.Cache[string, discovered] // by host
	finding   flight.Group[string, discovered] // by host
	located   memory.Cache[modproxy.Ref, fetch.Source]
	spelled   memory.Cache[modproxy.Ref, string]            // versions as registries write them; see spelling
	described memory.Cache[modproxy.Ref, *release.Download] // by releases and their zip archives
	asking    memory.Cache[serviceOf, *limits]
	paces     memory.Cache[string, *pace] // by host
}

// New returns a Client. Its error names the invalid setting.
func New(cfg Config) (*Client, error) {
	for host, h := range cfg.Hosts {
		for name, set := range map[string]string{"modules": h.Modules, "providers": h.Providers, "docs": h.Docs} {
			if _, err := serviceURL(nil, set); err != nil && set != "" {
				return nil, fmt.Errorf("upstream %s: %s: %w", host, name, err)
			}
		}
	}
	c := &Client{cfg: cfg}
	c.finding.Timeout = discoveryTimeout
	c.found.Max, c.located.Max, c.spelled.Max = maxRemembered, maxRemembered, maxRemembered
	c.asking.Max, c.paces.Max, c.described.Max = maxRemembered, maxRemembered, maxDescribed
	return c, nil
}

// question sends one question to a registry: GET of path below the base URL of its service. It calls read with the
// answer, which has at most limit bytes. asked is the URL before any redirect. The path begins with a namespace, unless
// its query selects several namespaces.
func question[T any](
	ctx context.Context, c *Client, s serviceOf, path string, limit int64,
	read func(res *http.Response, asked *url.URL, document []byte) (T, error),
) (T, error) {
	namespace := path[:max(0, strings.IndexAny(path, "/?"))]
	l := c.limitsOf(s)
	return ask.Do(ctx, l.Limiter, namespace, func(ctx context.Context) (answer T, err error) {
		base, err := c.base(ctx, s)
		if err != nil {
			return answer, err
		}
		asked, err := base.Parse(path)
		if err != nil {
			return answer, fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
		}
		if strings.HasPrefix(path, "?") { // a query of the service itself; the public registry expects no slash before it
			asked.Path = strings.TrimSuffix(asked.Path, "/")
		}
		header := http.Header{
			"Accept":              {"application/json"},
			"X-Terraform-Version": {"1.11.4"}, // some registries answer only clients like Terraform
		}
		res, err := c.cfg.Egress.Get(ctx, egress.Request{
			URL: asked.String(), Header: header, Credentials: c.shown(s), Redirects: 5, Attempts: 2, MaxBytes: limit,
			NoHedging: true, // the limiter hedges
		})
		if err != nil {
			return answer, fetch.Outgoing(err)
		}
		defer res.Body.Close()
		ask.Begin(ctx)
		if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNoContent {
			return answer, c.refusal(s, res)
		}
		document, leave, err := l.receive(ctx, res.Body)
		defer leave()
		if err != nil {
			return answer, fetch.Outgoing(err)
		}
		return read(res, asked, document)
	})
}

// modulePath returns the path of a question about m, below the base URL of modules.v1.
func modulePath(m modproxy.Address, rest string) string {
	return m.Namespace + "/" + m.Name + "/" + m.System + "/" + rest
}

// credentials returns the registry's token, bound to the registry's own origins.
func (c *Client) credentials(host string) []egress.Credential {
	h, ok := c.cfg.Hosts[host]
	if !ok || h.Token.IsZero() {
		return nil
	}
	bearer := egress.NewSecret("Bearer " + h.Token.Reveal())
	bound := []egress.Credential{{Origin: "https://" + host, Authorization: bearer}}
	for _, set := range []string{h.Modules, h.Providers} {
		if u, err := url.Parse(set); err == nil && u.Host != "" {
			bound = append(bound, egress.Credential{Origin: egress.Origin(u), Authorization: bearer})
		}
	}
	return bound
}

// shown returns the credentials for a service of a registry; see credentials. The documentation API receives none.
func (c *Client) shown(s serviceOf) []egress.Credential {
	if s.service == tofuDocs || s.service == tofuProviderDocs {
		return nil
	}
	return c.credentials(s.host)
}

// refusal returns the error for an answer with an unexpected status.
func (c *Client) refusal(s serviceOf, res *http.Response) error {
	advice := " (operator: set upstreams[].token for " + s.host + ")"
	switch {
	case s.service == tofuDocs, s.service == tofuProviderDocs:
		advice = "; it is shown no token (operator: it is upstreams[].docs of " + s.host + ")"
	case !c.cfg.Hosts[s.host].Token.IsZero():
		advice = " (operator: upstreams[].token of " + s.host + " does not open it)"
	}
	return fetch.Refusal(res, egress.Redact(res.Request.URL), advice)
}
