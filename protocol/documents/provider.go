package documents

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/protocol"
)

// providerDetails is a version of a provider below /v1/.
type providerDetails struct {
	ID          string         `json:"id"`
	Owner       string         `json:"owner"`
	Namespace   string         `json:"namespace"`
	Name        string         `json:"name"`
	Alias       *string        `json:"alias"`
	Version     string         `json:"version"`
	Tag         string         `json:"tag"`
	Description string         `json:"description"`
	Source      string         `json:"source"`
	Published   timestamp      `json:"published_at"`
	Downloads   int64          `json:"downloads"`
	Tier        string         `json:"tier"`
	Logo        string         `json:"logo_url"`
	Versions    []string       `json:"versions"`
	Docs        []modproxy.Doc `json:"docs"` // without descriptions and links

	Deprecation *modproxy.Deprecation `json:"deprecation,omitempty"` // by an operator; the public registry does not have this member
}

// provider reads the document about v, a version of a provider.
func (r *reading) provider(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		summary
		Alias string          `json:"alias"`
		Tier  string          `json:"tier"`
		Logo  string          `json:"logo_url"`
		Docs  json.RawMessage `json:"docs"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.Version, v); err != nil {
		return nil, err
	}
	doc.summary.Logo = doc.Logo
	d := &modproxy.Details{Summary: r.summary(doc.summary, v)}
	d.Alias, d.Tier = clean.Line(doc.Alias), clean.Line(doc.Tier)
	for _, text := range r.elements(doc.Docs) {
		var one modproxy.Doc
		if object(text, &one) && IsNumber(one.ID) {
			d.Docs = append(d.Docs, cleaned(one))
		}
	}
	return d, r.err
}

// IsNumber reports whether s is the number of a document, in the only form that tools accept.
func IsNumber(s string) bool {
	return s != "" && len(s) <= 18 && strings.Trim(s, "0123456789") == "" && s[0] != '0'
}

// cleaned returns doc with cleaned texts, as the cache stores it.
func cleaned(doc modproxy.Doc) modproxy.Doc {
	return modproxy.Doc{
		ID: doc.ID, Title: clean.Line(doc.Title), Path: clean.Line(doc.Path), Slug: clean.Line(doc.Slug), Category: clean.Line(doc.Category),
		Subcategory: clean.Line(doc.Subcategory), Language: clean.Line(doc.Language), Description: clean.Prose(doc.Description),
		Link: webURL(nil, doc.Link),
	}
}

func providerDetailsOf(d *modproxy.Details, list *modproxy.Versions) providerDetails {
	p := providerDetails{
		idOf(d.Address) + "/" + d.Version, d.Owner, d.Namespace, d.Name, nil, d.Version, d.Tag, d.Description, d.Source,
		timestamp{d.Published}, d.Downloads, d.Tier, d.Logo, ascending(list), make([]modproxy.Doc, 0, len(d.Docs)), d.Deprecation,
	}
	if d.Alias != "" {
		p.Alias = &d.Alias
	}
	for _, doc := range d.Docs {
		doc.Description, doc.Link = "", ""
		p.Docs = append(p.Docs, doc)
	}
	return p
}

// documentAttributes are the attributes of a document below /v2/.
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

// resourceOf returns doc as a resource. text is nil for a document in a list.
func resourceOf(doc modproxy.Doc, text *string) resource {
	return resource{
		Type: "provider-docs", ID: doc.ID,
		Attributes: documentAttributes{doc.Category, text, doc.Language, doc.Path, doc.Slug, doc.Subcategory, doc.Title, false},
		Links:      map[string]string{"self": protocol.Request{Kind: protocol.KindProviderDocument, ID: doc.ID}.Path()},
	}
}

// ParseText reads the text of the document with the number id, below /v2/.
func ParseText(document []byte, id string) (*modproxy.Text, error) {
	var doc struct {
		Data struct {
			ID         string             `json:"id"`
			Attributes documentAttributes `json:"attributes"`
		} `json:"data"`
	}
	switch {
	case !object(document, &doc):
		return nil, fmt.Errorf("%w: the document is not a JSON object", modproxy.ErrInvalid)
	case doc.Data.ID != id:
		return nil, fmt.Errorf("%w: the registry answers with document %.80q in its place", modproxy.ErrNotFound, doc.Data.ID)
	}
	text := &modproxy.Text{}
	if content := doc.Data.Attributes.Content; content != nil {
		text.Content = clean.Prose(*content)
	}
	return text, nil
}

// FormatText returns the document below /v2/ with the text of doc.
func FormatText(doc modproxy.Doc, text *modproxy.Text) any {
	return map[string]resource{"data": resourceOf(doc, &text.Content)}
}

// FormatProviderVersion returns the document below /v2/ about a version of a provider, with its documents.
func FormatProviderVersion(d *modproxy.Details) any {
	ids, included := make([]resource, 0, len(d.Docs)), make([]resource, 0, len(d.Docs))
	for _, doc := range d.Docs {
		one := resourceOf(doc, nil)
		included = append(included, one)
		ids = append(ids, resource{Type: one.Type, ID: one.ID})
	}
	return compound{resource{
		Type: "provider-versions", ID: idOf(d.Address) + "/" + d.Version,
		Attributes:    providerVersionAttributes{d.Description, d.Downloads, timestamp{d.Published}, d.Tag, d.Version},
		Relationships: map[string]any{"provider-docs": map[string]any{"data": ids}},
		Links:         linkTo(protocol.KindProviderVersion, d.Ref),
	}, included}
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

// FormatDocuments returns the document below /v2/ with the page of the documents docs that s selects.
func FormatDocuments(s protocol.Selection, docs []modproxy.Doc) any {
	all, shown := s.Of(docs)
	p := documentsPage{Data: make([]resource, 0, len(shown))}
	for _, doc := range shown {
		p.Data = append(p.Data, resourceOf(doc, nil))
	}
	p.Meta.Pagination = documentsMeta{Size: s.Size, Page: s.Page, Pages: (len(all) + s.Size - 1) / s.Size, Total: len(all)}
	if next := s.Page + 1; next <= p.Meta.Pagination.Pages {
		p.Meta.Pagination.Next = &next
	}
	if before := s.Page - 1; before > 0 {
		p.Meta.Pagination.Prev = &before
	}
	return p
}
