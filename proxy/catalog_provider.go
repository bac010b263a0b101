package proxy

import (
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

// providerDetails is a version of a provider in the form of the public registry below v1/providers/.
type providerDetails struct {
	ID        string        `json:"id"`
	Owner     string        `json:"owner"`
	Namespace string        `json:"namespace"`
	Name      string        `json:"name"`
	Alias     *string       `json:"alias"`
	Version   string        `json:"version"`
	Tag       string        `json:"tag"`
	About     string        `json:"description"`
	Source    string        `json:"source"`
	Published time.Time     `json:"published_at"`
	Downloads int64         `json:"downloads"`
	Tier      string        `json:"tier"`
	Logo      string        `json:"logo_url"`
	Versions  []string      `json:"versions"`
	Docs      []providerDoc `json:"docs"`

	Deprecation *modproxy.Deprecation `json:"deprecation,omitempty"` // by an operator; the public registry does not have this member
}

// providerDoc is a document in providerDetails.
type providerDoc struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Path        string `json:"path"`
	Slug        string `json:"slug"`
	Category    string `json:"category"`
	Subcategory string `json:"subcategory"`
	Language    string `json:"language"`
}

func providerDetailsOf(d *modproxy.Details, list *modproxy.Versions) providerDetails {
	p := providerDetails{
		idOf(d.Address) + "/" + d.Version, d.Owner, d.Namespace, d.Name, nil, d.Version, d.Tag, d.Description, d.Source, d.Published,
		d.Downloads, d.Tier, d.Logo, ascending(list), make([]providerDoc, 0, len(d.Docs)), d.Deprecation,
	}
	if d.Alias != "" {
		p.Alias = &d.Alias
	}
	for _, doc := range d.Docs {
		p.Docs = append(p.Docs, providerDoc{doc.ID, doc.Title, doc.Path, doc.Slug, doc.Category, doc.Subcategory, doc.Language})
	}
	return p
}

// providerAttributes are the attributes of a provider below v2/providers/.
type providerAttributes struct {
	Alias     string `json:"alias"`
	About     string `json:"description"`
	Downloads int64  `json:"downloads"`
	Featured  bool   `json:"featured"`
	FullName  string `json:"full-name"`
	Logo      string `json:"logo-url"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Owner     string `json:"owner-name"`
	NoIndex   bool   `json:"robots-noindex"`
	Source    string `json:"source"`
	Tier      string `json:"tier"`
	Unlisted  bool   `json:"unlisted"`
	Warning   string `json:"warning"`
}

type providerVersionAttributes struct {
	About     string    `json:"description"`
	Downloads int64     `json:"downloads"`
	Published time.Time `json:"published-at"`
	Tag       string    `json:"tag"`
	Version   string    `json:"version"`
}

// providerHistoryOf returns the document about a provider and its versions. The ids are addresses: tools put the id of a version into
// paths and filters, where it is read as one.
func providerHistoryOf(h *modproxy.History) historyDocument {
	m, id := h.Module, idOf(h.Module)
	var ids []resource
	included := make([]resource, 0, len(h.Versions))
	for _, v := range h.Versions {
		one := resource{Type: "provider-versions", ID: id + "/" + v.Version}
		ids = append(ids, one)
		one.Attributes = providerVersionAttributes{v.Description, v.Downloads, v.Published, v.Tag, v.Version}
		one.Links = &resourceLinks{linkTo(protocol.KindProviderVersion, m.At(v.Version))}
		included = append(included, one)
	}
	return historyDocument{resource{
		Type: "providers", ID: id,
		Attributes: providerAttributes{
			Alias: h.Alias, About: h.Description, Downloads: h.Downloads, FullName: id, Logo: h.Logo, Name: m.Name, Namespace: m.Namespace,
			Owner: h.Owner, Source: h.Source, Tier: h.Tier, Warning: h.Warning,
		},
		Relationships: map[string]any{"provider-versions": map[string]any{
			"data": notNil(ids), "links": map[string]string{"related": linkTo(protocol.KindHistory, m.At("")) + "/provider-versions"},
		}},
		Links: &resourceLinks{linkTo(protocol.KindHistory, m.At(""))},
	}, included}
}

// providerVersionDocument is a version of a provider with its documents.
type providerVersionDocument struct {
	Data     resource   `json:"data"`
	Included []resource `json:"included"`
}

func providerVersionOf(d *modproxy.Details) providerVersionDocument {
	id := idOf(d.Address) + "/" + d.Version
	ids, included := make([]resource, 0, len(d.Docs)), make([]resource, 0, len(d.Docs))
	for _, doc := range d.Docs {
		one := resourceOf(doc)
		included = append(included, one)
		ids = append(ids, resource{Type: one.Type, ID: one.ID})
	}
	return providerVersionDocument{resource{
		Type: "provider-versions", ID: id,
		Attributes:    providerVersionAttributes{d.Description, d.Downloads, d.Published, d.Tag, d.Version},
		Relationships: map[string]any{"provider-docs": map[string]any{"data": ids}},
		Links:         &resourceLinks{linkTo(protocol.KindProviderVersion, d.Ref)},
	}, included}
}

// documentAttributes are the attributes of a document below v2/provider-docs.
type documentAttributes struct {
	Category    string  `json:"category"`
	Content     *string `json:"content,omitempty"`
	Language    string  `json:"language"`
	Path        string  `json:"path"`
	Slug        string  `json:"slug"`
	Subcategory string  `json:"subcategory"`
	Title       string  `json:"title"`
	Truncated   bool    `json:"truncated"`
}

func resourceOf(doc modproxy.Doc) resource {
	return resource{
		Type: "provider-docs", ID: doc.ID,
		Attributes: documentAttributes{
			Category: doc.Category, Language: doc.Language, Path: doc.Path, Slug: doc.Slug, Subcategory: doc.Subcategory, Title: doc.Title,
		},
		Links: &resourceLinks{protocol.Request{Kind: protocol.KindProviderDocument, ID: doc.ID}.Path()},
	}
}

func documentOf(doc modproxy.Doc, text *modproxy.Text) map[string]resource {
	one := resourceOf(doc)
	attributes := one.Attributes.(documentAttributes)
	attributes.Content = &text.Content
	one.Attributes = attributes
	return map[string]resource{"data": one}
}

// documentsPage is a page of the documents of a version.
type documentsPage struct {
	Data []resource `json:"data"`
	Meta struct {
		Pagination documentsMeta `json:"pagination"`
	} `json:"meta"`
}

type documentsMeta struct {
	Size  int  `json:"page-size"`
	Page  int  `json:"current-page"`
	Next  *int `json:"next-page"`
	Prev  *int `json:"prev-page"`
	Pages int  `json:"total-pages"`
	Total int  `json:"total-count"`
}

func documentsOf(s protocol.Selection, total int, page []modproxy.Doc) documentsPage {
	p := documentsPage{Data: make([]resource, 0, len(page))}
	for _, doc := range page {
		p.Data = append(p.Data, resourceOf(doc))
	}
	p.Meta.Pagination = documentsMeta{Size: s.Size, Page: s.Page, Pages: (total + s.Size - 1) / s.Size, Total: total}
	if next := s.Page + 1; next <= p.Meta.Pagination.Pages {
		p.Meta.Pagination.Next = &next
	}
	if before := s.Page - 1; before > 0 {
		p.Meta.Pagination.Prev = &before
	}
	return p
}

// docsProviderVersion is a version of a provider in the form of registry-ui of OpenTofu
// (backend/internal/providerindex/providertypes/provider_version.go).
type docsProviderVersion struct {
	docsVersion
	Docs  docsOfProvider            `json:"docs"`
	CDKTF map[string]docsOfProvider `json:"cdktf_docs"`
	Link  string                    `json:"link"`
}

type docsOfProvider struct {
	Root      *docsItem  `json:"index,omitempty"`
	Resources []docsItem `json:"resources"`
	Sources   []docsItem `json:"datasources"`
	Functions []docsItem `json:"functions"`
	Guides    []docsItem `json:"guides"`
}

type docsItem struct {
	Name        string `json:"name"`
	Link        string `json:"edit_link"`
	Title       string `json:"title"`
	Subcategory string `json:"subcategory"`
	Description string `json:"description"`
}

func docsProviderOf(d *modproxy.Details) docsProviderVersion {
	all := docsOfProvider{Resources: []docsItem{}, Sources: []docsItem{}, Functions: []docsItem{}, Guides: []docsItem{}}
	for _, doc := range d.Docs {
		item := docsItem{doc.Slug, doc.Link, doc.Title, doc.Subcategory, doc.Description}
		switch doc.Category {
		case "overview":
			all.Root = &item
		case "resources":
			all.Resources = append(all.Resources, item)
		case "data-sources":
			all.Sources = append(all.Sources, item)
		case "functions":
			all.Functions = append(all.Functions, item)
		case "guides":
			all.Guides = append(all.Guides, item)
		}
	}
	return docsProviderVersion{docsVersion{"v" + d.Version, d.Published}, all, map[string]docsOfProvider{}, d.Source}
}
