package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"weak"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/protocol/documents"
)

var errNoCatalog = protocol.NotFound("modules and providers are not described here: want …/versions or …/download")

// serveCatalog answers q from the catalog.
func (h *Handler) serveCatalog(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	switch {
	case h.cfg.Catalog == nil:
		return errNoCatalog
	case q.IsList():
		return h.serveList(w, r, e, q)
	case q.Kind == protocol.KindDownloads:
		return h.serveDownloads(w, r, e, q)
	case q.Kind == protocol.KindProviderVersion:
		return h.serveProviderVersion(w, r, e, q)
	case q.Kind == protocol.KindProviderDocuments:
		return h.serveProviderDocuments(w, r, e, q)
	case q.Kind == protocol.KindProviderDocument:
		return h.serveProviderDocument(w, r, e, q)
	case q.Kind == protocol.KindHistory, q.Kind == protocol.KindDocs && q.Version == "":
		return h.serveHistory(w, r, e, q)
	}
	return h.serveDetails(w, r, e, q)
}

// serveDetails serves the description of a version, or of the latest version.
func (h *Handler) serveDetails(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	if q.Version == "" {
		list, err := inAnyCase(h, r, e, &q.Address, h.cfg.Listing.Versions)
		if err != nil {
			return err
		}
		latest, ok := list.Latest()
		if !ok {
			return httpx.ErrAbsent
		}
		q.Version = latest.String()
		e.Version = q.Version
	}
	d, err := inAnyCase(h, r, e, &q.Address, func(ctx context.Context, m modproxy.Address) (*modproxy.Details, error) {
		return h.cfg.Catalog.Details(ctx, modproxy.Ref{Address: m, Version: q.Version, Variant: q.Variant})
	})
	if err != nil {
		return err
	}
	k := renderKey{weak.Make(d), q.Kind, d.Listed}
	text, ok := h.rendered.Get(k)
	if !ok {
		list, err := h.cfg.Listing.Versions(r.Context(), q.Address)
		if err != nil {
			return err
		}
		k.versions = list.ETag
		text, err = h.renderedOf(r.Context(), k, d.Size(), func() any {
			if q.Kind == protocol.KindDocs {
				return documents.FormatDocsDetails(d)
			}
			return documents.FormatDetails(d, list)
		})
		if err != nil {
			return err
		}
	}
	return h.writeRendered(w, r, e, d.Answered, text)
}

// inAnyCase returns the result of answer for m. If the result is not cached and no request is sent to the registry, inAnyCase looks for
// modules whose addresses differ from m only in case. If it finds exactly one, it sets m to this module. The reason: some tools fold
// names, as public registries do.
func inAnyCase[T any](
	h *Handler, r *http.Request, e *httpx.Event, m *modproxy.Address, answer func(context.Context, modproxy.Address) (T, error),
) (T, error) {
	found, err := answer(r.Context(), *m)
	if m.Kind().FoldsCase() || !errors.As(err, new(*modproxy.NotCached)) { // a folded address has one spelling
		return found, err
	}
	q := modproxy.Query{Host: m.Host, Namespace: m.Namespace, Name: m.Name, System: m.System, Limit: 2}
	page, errList := h.cfg.Catalog.List(r.Context(), q)
	if errList != nil || len(page.Modules) != 1 || page.More || page.Modules[0].Address == *m {
		return found, err
	}
	*m = page.Modules[0].Address
	e.Module = *m
	return answer(r.Context(), *m)
}

// serveHistory serves all versions with their dates.
func (h *Handler) serveHistory(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	history, err := inAnyCase(h, r, e, &q.Address, h.cfg.Catalog.History)
	if err != nil {
		return err
	}
	text, err := h.renderedOf(r.Context(), renderKey{of: weak.Make(history), kind: q.Kind}, history.Size(), func() any {
		if q.Kind == protocol.KindDocs {
			return documents.FormatDocsHistory(history)
		}
		return documents.FormatHistory(history)
	})
	if err != nil {
		return err
	}
	return h.writeRendered(w, r, e, history.Answered, text)
}

// serveDownloads serves how often a module was downloaded.
func (h *Handler) serveDownloads(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	d, err := inAnyCase(h, r, e, &q.Address, h.cfg.Catalog.Downloads)
	if err != nil {
		return err
	}
	text, err := httpx.NewDocument(documents.FormatDownloads(q.Address, d))
	if err != nil {
		return err
	}
	return h.writeRendered(w, r, e, d.Answered, text)
}

// serveList serves a page of a list.
func (h *Handler) serveList(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	list, err := q.ListQuery(r.URL.RawQuery)
	if err != nil {
		return err
	}
	if q.ByNamespace && list.Namespace != "" {
		if list.Host, err = h.cfg.Upstreams.For(r.Host, list.Namespace); err != nil {
			return err
		}
	}
	page, err := h.cfg.Catalog.List(r.Context(), list)
	if err != nil {
		return err
	}
	shown, size := modproxy.Page{More: page.More}, int64(0)
	for _, s := range page.Modules {
		if !q.ByNamespace || h.cfg.Upstreams.ByNamespace(s.Namespace) == s.Host { // otherwise the name means another module here
			shown.Modules = append(shown.Modules, s)
			size += int64(len(s.Description))
		}
	}
	text, err := h.documents.Make(r.Context(), size, func() (*httpx.Document, error) {
		return httpx.NewDocument(documents.FormatPage(list, &shown, func(offset int) string { return h.pageURL(r, list, offset) }))
	})
	if err != nil {
		return err
	}
	return h.writeRendered(w, r, e, page.Answered, text)
}

// pageURL returns the URL of the page of list, which r requests, at another offset.
func (h *Handler) pageURL(r *http.Request, list modproxy.Query, offset int) string {
	below := ""
	if base, err := url.Parse(h.origin(r)); err == nil {
		below = base.EscapedPath()
	}
	return below + r.URL.EscapedPath() + "?" + protocol.PageQuery(r.URL.RawQuery, list.Limit, offset)
}

// writeRendered writes a document that was made of an answer of the catalog.
func (h *Handler) writeRendered(w *httpx.Response, r *http.Request, e *httpx.Event, a modproxy.Answered, text *httpx.Document) error {
	release, err := h.documents.Hold(text.Plain, len(text.Compressed))
	if err != nil {
		return err
	}
	defer release()
	setListingStatus(w, e, &modproxy.Versions{Hit: a.Hit, Stale: a.Stale, Time: a.Time})
	w.WriteDocument(r, *text, h.private(cachePrivate))
	return nil
}
