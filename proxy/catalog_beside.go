package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

// Questions about providers of the registry's own API, as public registries have it beside providers.v1. Which provider the last
// two are about is not in the path.
const (
	kindProviderVersion   kind = "provider_version"
	kindProviderDocuments kind = "provider_documents"
	kindProviderDocument  kind = "provider_document"
)

const (
	providerHistoryPath   = "v2/providers/"
	providerVersionPath   = "v2/provider-versions/"
	providerDocumentsPath = "v2/provider-docs"
)

// isBesideProviders reports whether a path is for parseBesideProviders.
func isBesideProviders(path string) bool {
	return strings.Contains(path, "/"+providerHistoryPath) || strings.Contains(path, "/"+providerVersionPath) ||
		strings.Contains(path, "/"+providerDocumentsPath+"/") || strings.HasSuffix(path, "/"+providerDocumentsPath)
}

// isOfDocuments reports whether q is for documents of any provider: Host is all that it has of an address.
func (q request) isOfDocuments() bool {
	return q.kind == kindProviderDocuments || q.kind == kindProviderDocument && q.Version == ""
}

// parseBesideProviders reads an escaped path of the registry's own API, sent to requestHost:
//
//	[/{host}]/v2/providers/{namespace}/{type}
//	[/{host}]/v2/provider-versions/{namespace}/{type}/{version}
//	[/{host}]/v2/provider-docs[/{id}]
func (u *Upstreams) parseBesideProviders(requestHost, path string) (q request, err error) {
	before, rest, _ := strings.Cut(path, "/v2/")
	if q.Host, err = u.ofProvider(requestHost, before, http.StatusForbidden); err != nil {
		return request{}, err
	}
	parts, err := unescaped(rest)
	if err != nil {
		return request{}, err
	}
	if parts[0] == "provider-versions" && len(parts) == 2 {
		parts = append(parts[:1], strings.Split(parts[1], "/")...) // some tools escape an id as a whole
	}
	switch n := len(parts); {
	case parts[0] == "providers" && n == 3:
		q.kind = kindHistory
		q.Address, err = provider(q.Host, parts[1], parts[2])
	case parts[0] == "provider-versions" && n == 4:
		q.kind = kindProviderVersion
		if q.Address, err = provider(q.Host, parts[1], parts[2]); err == nil {
			q.Ref, err = providerVersion(q.Address, parts[3], "")
		}
	case parts[0] == "provider-docs" && n == 1:
		q.kind = kindProviderDocuments
	case parts[0] == "provider-docs" && n == 2 && parts[1] != "":
		q.kind, q.id = kindProviderDocument, parts[1]
	default:
		err = notFound("want v2/providers/{namespace}/{type}, v2/provider-versions/{namespace}/{type}/{version} or v2/provider-docs/{id}")
	}
	return q, err
}

// selected is what a question for the documents of a version of a provider selects. Fields that are empty select all.
type selected struct {
	modproxy.Ref
	category, subcategory, language string
	slugs                           []string
	page, size                      int // of a page: its number from 1, and documents
}

const maxPageSize = 100 // of a page

// parseSelected reads the query of a question for documents of providers of host. Parameters that it does not know do not count.
func parseSelected(host, rawQuery string) (s selected, err error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return s, errQuery
	}
	parts := strings.Split(values.Get("filter[provider-version]"), "/")
	if len(parts) != 3 {
		return s, invalid(errors.New("filter[provider-version]: want the id of a version that /v2/providers/{namespace}/{type} has here"))
	}
	m, err := provider(host, parts[0], parts[1])
	if err == nil {
		s.Ref, err = providerVersion(m, parts[2], "")
	}
	if err != nil {
		return s, err
	}
	s.category, s.subcategory, s.language = values.Get("filter[category]"), values.Get("filter[subcategory]"), values.Get("filter[language]")
	if slugs := values.Get("filter[slug]"); slugs != "" {
		s.slugs = strings.Split(slugs, ",")
	}
	for name, into := range map[string]*int{"page[number]": &s.page, "page[size]": &s.size} {
		n, errNumber := strconv.ParseUint(cmp.Or(values.Get(name), "0"), 10, 31)
		if *into = int(n); errNumber != nil {
			return s, invalid(fmt.Errorf("%s %.80q: want a number below 2147483648", name, values.Get(name)))
		}
	}
	s.page = max(s.page, 1)
	s.size = min(cmp.Or(s.size, maxPageSize), maxPageSize)
	return s, nil
}

// of returns the documents that s selects, and of them those of its page.
func (s selected) of(docs []modproxy.Doc) (all, page []modproxy.Doc) {
	is := func(want, have string) bool { return want == "" || want == have }
	for _, doc := range docs {
		if is(s.category, doc.Category) && is(s.subcategory, doc.Subcategory) && is(s.language, doc.Language) &&
			(s.slugs == nil || slices.Contains(s.slugs, doc.Slug)) {
			all = append(all, doc)
		}
	}
	first := min(int64(s.page-1)*int64(s.size), math.MaxInt32)
	return all, all[min(int(first), len(all)):min(int(first)+s.size, len(all))]
}

var markdownType = []string{"text/markdown; charset=utf-8"}

var errNoDocument = notFound("no document with this id is known here: look for the documents of a version of the provider first")

// serveProviderVersion serves one version of a provider with the documents about it.
func (h *Handler) serveProviderVersion(w *response, r *http.Request, e *Event, q request) error {
	d, err := h.cfg.Catalog.Details(r.Context(), q.Ref)
	if err != nil {
		return err
	}
	return h.writeAnswered(w, r, e, d.Answered, d.Size(), providerVersionOf(d))
}

// serveProviderDocuments serves a page of the documents about one version of a provider.
func (h *Handler) serveProviderDocuments(w *response, r *http.Request, e *Event, q request) error {
	s, err := parseSelected(q.Host, r.URL.RawQuery)
	if err != nil {
		return err
	}
	e.Module, e.Version = s.Address, s.Version
	d, err := h.cfg.Catalog.Details(r.Context(), s.Ref)
	if err != nil {
		return err
	}
	all, page := s.of(d.Docs)
	return h.writeAnswered(w, r, e, d.Answered, d.Size(), documentsOf(s, len(all), page))
}

// serveProviderDocument serves the document with an ID. Of several versions that have it, the first counts that the client may use.
func (h *Handler) serveProviderDocument(w *response, r *http.Request, e *Event, q request) error {
	if q.Version != "" {
		text, err := h.cfg.Catalog.Text(r.Context(), q.Ref, q.id)
		if err != nil {
			return err
		}
		setListingStatus(w, e, &modproxy.Versions{Hit: text.Hit, Stale: text.Stale, Time: text.Time})
		return h.writeFile(w, r, markdownType, []byte(text.Content))
	}
	if h.cfg.Documents == nil {
		return errNoDocument
	}
	versions, err := h.cfg.Documents.Numbered(r.Context(), q.Host, q.id)
	if err != nil {
		return err
	}
	err = errNoDocument
	for _, v := range versions {
		var d *modproxy.Details
		if d, err = h.cfg.Catalog.Details(r.Context(), v); err != nil {
			continue
		}
		i := slices.IndexFunc(d.Docs, func(doc modproxy.Doc) bool { return doc.ID == q.id })
		if i < 0 {
			err = errNoDocument
			continue
		}
		text, errText := h.cfg.Catalog.Text(r.Context(), v, q.id)
		if err = errText; err == nil {
			e.Module, e.Version = v.Address, v.Version
			return h.writeAnswered(w, r, e, text.Answered, int64(len(text.Content)), documentOf(d.Docs[i], text))
		}
	}
	if errors.Is(err, modproxy.ErrNotFound) { // as if there were no such version
		err = errNoDocument
	}
	return err
}

// writeAnswered writes v, which was made of an answer of size bytes.
func (h *Handler) writeAnswered(w *response, r *http.Request, e *Event, a modproxy.Answered, size int64, v any) error {
	give, err := h.turnToRender(r.Context(), size)
	if err != nil {
		return err
	}
	text, err := render(v)
	give()
	if err != nil {
		return err
	}
	return h.writeRendered(w, r, e, a, text)
}
