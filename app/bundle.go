package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/policy"
	"github.com/modproxy/modproxy/proxy"
)

// A Bundle serves the content of a bundle without a data directory. It follows the rules of the configuration and the decisions
// in the bundle. It has no operator's API, and clients need no credential.
type Bundle struct {
	Registry *bundle.Registry

	app  *App // without a data directory
	file *os.File
}

// OpenBundle opens a bundle and listens for clients. The bundle must be signed with one of keys or of bundle.keys in the
// configuration.
func OpenBundle(c *config.Config, o Options, name string, keys []string) (_ *Bundle, err error) {
	if why := c.RequiresTokenBecause(); why != "" {
		return nil, config.Error{fmt.Errorf("listen: clients need a token because %s, but no token exists without a data directory: set anonymous: true", why)}
	}
	if c.Rewrite.Nested {
		return nil, config.Error{fmt.Errorf("%s: rewrite.nested: packages of a bundle are served unchanged: import the bundle instead", c.Source("rewrite.nested"))}
	}
	if err := CheckKeys(c); err != nil {
		return nil, err
	}
	trust, err := ledger.Verifiers(append(keys, c.Bundle.Keys...)...)
	if err != nil {
		return nil, err
	}
	rules, err := PolicyOf(c)
	if err != nil {
		return nil, err
	}
	b := &Bundle{}
	if b.file, err = durable.OpenRegular(name, os.O_RDONLY); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	info, err := b.file.Stat()
	if err != nil {
		return nil, err
	}
	if b.Registry, err = bundle.Open(b.file, info.Size(), trust, releasesOf(c)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	known := *c
	known.Offline, known.Data = true, ""
	for _, host := range b.Registry.Hosts() { // the bundle answers for these registries
		if !c.HasUpstream(host) {
			known.Upstreams = append(slices.Clip(known.Upstreams), config.Upstream{Host: host})
		}
	}
	b.app = inside(&known, o)
	b.app.log, b.app.logLevel, b.app.flush = newLog(o.Log, c.Log.Level)
	if err = b.app.listen(); err != nil {
		return nil, err
	}
	gate := policy.NewGate(b.Registry, b.Registry)
	gate.Use(rules)
	b.app.layers = fromBundle(b.Registry, gate)
	return b, nil
}

// CheckKeys returns a [config.Error] if bundle.keys has an invalid key.
func CheckKeys(c *config.Config) error {
	if _, err := ledger.Verifiers(c.Bundle.Keys...); err != nil {
		return config.Error{fmt.Errorf("%s: bundle.keys: %w", c.Source("bundle.keys"), err)}
	}
	return nil
}

// releasesOf returns the settings that select the releases of providers to accept from bundles.
func releasesOf(c *config.Config) bundle.Releases {
	return bundle.Releases{Signers: c.Providers.Keys, Unsigned: c.Providers.Unsigned, OtherNames: c.Providers.OtherNames}
}

// URL returns the URL of the proxy on this machine.
func (b *Bundle) URL() string { return b.app.url }

// ClientConfig returns the CLI configuration for clients.
func (b *Bundle) ClientConfig() string {
	return ClientConfig(b.app.BaseURL(), "", false, b.app.config, nil)
}

// Serve answers clients until ctx ends.
func (b *Bundle) Serve(ctx context.Context) error {
	a := b.app
	server := newServer(proxy.New(proxy.Config{
		Registry:       a.Registry,
		Catalog:        a.catalog,
		Listing:        a.listing,
		Upstreams:      upstreamsOf(a.config),
		Contact:        a.config.ContactText,
		PublicURL:      strings.TrimRight(a.config.PublicURL, "/"),
		Process:        readOnlyProcess{process{a, addresses(a.listener.Addr())}},
		Local:          !a.config.Anonymous.All,
		Limits:         httpx.Limits{Requests: a.config.Limits.Requests, Rate: a.config.Limits.Rate},
		TrustedProxies: a.config.TrustedProxies,
		Log:            a.log,
		Metrics:        a.metrics,
	}), a.tls, a.log)
	a.logStarted()
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.config.Shutdown)
		defer cancel()
		if server.Shutdown(deadline) != nil {
			server.Close() // answers in progress are cut, which clients notice
		}
		close(ended)
	})
	if err := a.accept(server); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	<-ended
	return nil
}

// Close releases the file and the address.
func (b *Bundle) Close() error {
	if b.app == nil {
		return b.file.Close()
	}
	return errors.Join(b.app.Close(), b.file.Close())
}

// readOnlyProcess is the process of a Bundle. It has no problems to report, because it only reads.
type readOnlyProcess struct{ process }

// Problems returns an empty list.
func (readOnlyProcess) Problems() []proxy.Problem { return nil }
