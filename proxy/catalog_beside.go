package proxy

import (
	"errors"
	"net/http"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/protocol/documents"
)

var markdownType = []string{"text/markdown; charset=utf-8"}

var errNoDocument = protocol.NotFound("no document with this id is known here: look for the documents of a version of the provider first")

// serveProviderVersion serves one version of a provider with the documents about it.
func (h *Handler) serveProviderVersion(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	d, err := h.cfg.Catalog.Details(r.Context(), q.Ref)
	if err != nil {
		return err
	}
	return h.writeAnswered(w, r, e, d.Answered, d.Size(), documents.FormatProviderVersion(d))
}

// serveProviderDocuments serves a page of the documents about one version of a provider.
func (h *Handler) serveProviderDocuments(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	s, err := protocol.ParseSelection(q.Host, r.URL.RawQuery)
	if err != nil {
		return err
	}
	e.Module, e.Version = s.Address, s.Version
	d, err := h.cfg.Catalog.Details(r.Context(), s.Ref)
	if err != nil {
		return err
	}
	return h.writeAnswered(w, r, e, d.Answered, d.Size(), documents.FormatDocuments(s, d.Docs))
}

// serveProviderDocument serves the document with an ID. If several versions have it, the first version that the client may use counts.
func (h *Handler) serveProviderDocument(w *httpx.Response, r *http.Request, e *httpx.Event, q protocol.Request) error {
	if q.Version != "" {
		text, err := h.cfg.Catalog.Text(r.Context(), q.Ref, q.ID)
		if err != nil {
			return err
		}
		setListingStatus(w, e, &modproxy.Versions{Hit: text.Hit, Stale: text.Stale, Time: text.Time})
		return h.writeFile(w, r, markdownType, []byte(text.Content))
	}
	if h.cfg.Documents == nil {
		return errNoDocument
	}
	versions, err := h.cfg.Documents.Numbered(r.Context(), q.Host, q.ID)
	if err != nil {
		return err
	}
	err = errNoDocument
	for _, v := range versions {
		var d *modproxy.Details
		if d, err = h.cfg.Catalog.Details(r.Context(), v); err != nil {
			continue
		}
		i := slices.IndexFunc(d.Docs, func(doc modproxy.Doc) bool { return doc.ID == q.ID })
		if i < 0 {
			err = errNoDocument
			continue
		}
		text, errText := h.cfg.Catalog.Text(r.Context(), v, q.ID)
		if err = errText; err == nil {
			e.Module, e.Version = v.Address, v.Version
			return h.writeAnswered(w, r, e, text.Answered, int64(len(text.Content)), documents.FormatText(d.Docs[i], text))
		}
	}
	if errors.Is(err, modproxy.ErrNotFound) { // as if the version did not exist
		err = errNoDocument
	}
	return err
}

// writeAnswered writes v as a document. v was made of an answer of size bytes.
func (h *Handler) writeAnswered(w *httpx.Response, r *http.Request, e *httpx.Event, a modproxy.Answered, size int64, v any) error {
	text, err := h.documents.Make(r.Context(), size, func() (*httpx.Document, error) { return httpx.NewDocument(v) })
	if err != nil {
		return err
	}
	return h.writeRendered(w, r, e, a, text)
}
