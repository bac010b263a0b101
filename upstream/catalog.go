package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/protocol/documents"
)

// Services beside the module registry protocol. Their failures say nothing about the services of the protocol itself.
const (
	modulesV2        service = "modules.v2"    // beside modules.v1: JSON:API documents
	moduleDocs       service = "module.docs"   // below modules.v1: one document for each version, and the download counts
	moduleLists      service = "module.lists"  // below modules.v1: lists of modules
	providersV2      service = "providers.v2"  // beside providers.v1: JSON:API documents
	providerDocs     service = "provider.docs" // below providers.v1: one document for each version
	providerTexts    service = "provider.text" // beside providers.v2: the documents that providers.v2 names
	tofuDocs         service = "tofu.docs"     // at another origin: see [Host]
	tofuProviderDocs service = "tofu.provider.docs"
)

var _ modproxy.Catalog = (*Client)(nil)

// described asks a question beside the protocol and reads the answer. The error is [modproxy.ErrNotFound] if the
// registry has no such document, and [modproxy.ErrUnavailable] if its answer cannot be read.
func described[T any](
	ctx context.Context, c *Client, s serviceOf, path string, read func(document []byte, from *url.URL) (T, error),
) (none T, err error) {
	leave, err := c.limitsOf(serviceOf{s.host, s.protocol()}).sideRequest(ctx)
	if err != nil {
		return none, err
	}
	defer leave()
	answer, err := question(ctx, c, s, path, maxDocument, func(res *http.Response, _ *url.URL, document []byte) (T, error) {
		answer, err := read(document, res.Request.URL)
		switch {
		case errors.Is(err, modproxy.ErrNotFound):
			return none, err
		case err != nil: // a failing upstream says nothing about the module
			return none, fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, egress.Redact(res.Request.URL), err)
		}
		return answer, nil
	})
	if errors.Is(err, egress.ErrTooLarge) { // treated like an unreadable answer
		err = fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	return answer, err
}

// protocol returns the registry protocol that s is beside.
func (s service) protocol() service {
	switch s {
	case providersV2, providerDocs, providerTexts, tofuProviderDocs:
		return providersV1
	default:
		return modulesV1
	}
}

// Details implements [modproxy.Catalog]. If the host has a documentation API ([Host].Docs), Details asks that API.
func (c *Client) Details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	_, known := c.spelled.Peek(v.Address.At(""))
	d, err := c.details(ctx, v)
	if errors.Is(err, modproxy.ErrNotFound) && !known && v.IsModule() && c.cfg.Hosts[v.Host].Docs == "" && c.spelling(ctx, v) != "" {
		d, err = c.details(ctx, v)
	}
	if err != nil {
		return nil, modproxy.Wrap("details", v, err)
	}
	d.Time = time.Now()
	return d, nil
}

// details requests the document about v, with the registry's own spelling of the version if it is known.
func (c *Client) details(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	var s service
	var path string
	version, parse := url.PathEscape(v.Version), documents.ParseDetails
	elsewhere := c.cfg.Hosts[v.Host].Docs != ""
	if elsewhere {
		parse = documents.ParseDocsDetails
	}
	switch v.Kind() {
	case modproxy.Module:
		s, path = moduleDocs, modulePath(v.Address, url.PathEscape(cmp.Or(c.knownSpelling(v), v.Version)))
		if elsewhere {
			s, path = tofuDocs, modulePath(v.Address, "v"+version+"/index.json")
		}
	case modproxy.Provider:
		if !v.IsListed() {
			return nil, fmt.Errorf("%w: modproxy has made it, and no registry describes it", modproxy.ErrNotFound)
		}
		s, path = providerDocs, providerPath(v.Address, version)
		if elsewhere {
			s, path = tofuProviderDocs, providerPath(v.Address, "v"+version+"/index.json")
		}
	}
	return described(ctx, c, serviceOf{v.Host, s}, path, func(document []byte, from *url.URL) (*modproxy.Details, error) {
		return parse(document, from, v)
	})
}

// History implements [modproxy.Catalog]. If the host has a documentation API ([Host].Docs), History asks that API,
// otherwise /v2/ of the registry.
func (c *Client) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	h, err := c.history(ctx, m)
	if err != nil {
		return nil, modproxy.Wrap("history", m.At(""), err)
	}
	h.Time = time.Now()
	return h, nil
}

func (c *Client) history(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	var s service
	var path string
	parse := documents.ParseHistory
	elsewhere := c.cfg.Hosts[m.Host].Docs != ""
	if elsewhere {
		parse = documents.ParseDocsHistory
	}
	switch m.Kind() {
	case modproxy.Module:
		s, path = modulesV2, m.Namespace+"/"+m.Name+"/"+m.System+"?include=module-versions"
		if elsewhere {
			s, path = tofuDocs, modulePath(m, "index.json")
		}
	case modproxy.Provider:
		s, path = providersV2, m.Namespace+"/"+m.Name+"?include=provider-versions"
		if elsewhere {
			s, path = tofuProviderDocs, providerPath(m, "index.json")
		}
	}
	return described(ctx, c, serviceOf{m.Host, s}, path, func(document []byte, from *url.URL) (*modproxy.History, error) {
		return parse(document, from, m)
	})
}

// Downloads implements [modproxy.Catalog].
func (c *Client) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	read := func(document []byte, _ *url.URL) (*modproxy.Downloads, error) {
		return documents.ParseDownloads(document)
	}
	d, err := described(ctx, c, serviceOf{m.Host, moduleDocs}, modulePath(m, "downloads/summary"), read)
	if err != nil {
		return nil, modproxy.Wrap("downloads", m.At(""), err)
	}
	d.Time = time.Now()
	return d, nil
}

// List implements [modproxy.Catalog].
func (c *Client) List(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	wanted := modproxy.Address{Namespace: cmp.Or(q.Namespace, "x"), Name: cmp.Or(q.Name, "x"), System: cmp.Or(q.System, "x")}
	if err := wanted.Check(); err != nil {
		return nil, fmt.Errorf("list of %s: %w", q.Host, err)
	}
	page, err := c.list(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("list of %s: %w", q.Host, err)
	}
	page.Time = time.Now()
	return page, nil
}

// Text implements [modproxy.Catalog].
func (c *Client) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	text, err := c.text(ctx, v, id)
	if err != nil {
		return nil, modproxy.Wrap("document "+id, v, err)
	}
	text.Time = time.Now()
	return text, nil
}

func (c *Client) text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	elsewhere := c.cfg.Hosts[v.Host].Docs != ""
	switch {
	case !v.IsProvider(), elsewhere && !documents.IsDocPath(id), !elsewhere && !documents.IsNumber(id):
		return nil, fmt.Errorf("%w: no registry has a document that is called so", modproxy.ErrNotFound)
	case elsewhere:
		path := providerPath(v.Address, "v"+url.PathEscape(v.Version)+"/"+id+".md")
		return described(ctx, c, serviceOf{v.Host, tofuProviderDocs}, path, func(document []byte, _ *url.URL) (*modproxy.Text, error) {
			return &modproxy.Text{Content: clean.Prose(string(document))}, nil
		})
	}
	return described(ctx, c, serviceOf{v.Host, providerTexts}, id, func(document []byte, _ *url.URL) (*modproxy.Text, error) {
		return documents.ParseText(document, id)
	})
}
