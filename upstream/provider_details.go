package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// providerDetails requests the document about v, a version of a provider, from its registry or, if elsewhere, from the
// documentation API.
func (c *Client) providerDetails(ctx context.Context, v modproxy.Ref, elsewhere bool) (*modproxy.Details, error) {
	if !v.IsListed() {
		return nil, fmt.Errorf("%w: modproxy has made it, and no registry describes it", modproxy.ErrNotFound)
	}
	version := url.PathEscape(v.Version)
	if elsewhere {
		path := providerPath(v.Address, "v"+version+"/index.json")
		return described(ctx, c, serviceOf{v.Host, tofuProviderDocs}, path, func(r *reading, document []byte) (*modproxy.Details, error) {
			return r.docsProvider(document, v)
		})
	}
	path := providerPath(v.Address, version)
	return described(ctx, c, serviceOf{v.Host, providerDocs}, path, func(r *reading, document []byte) (*modproxy.Details, error) {
		return r.provider(document, v)
	})
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
	case !v.IsProvider(), elsewhere && !isDocPath(id), !elsewhere && !isNumber(id):
		return nil, fmt.Errorf("%w: no registry has a document that is called so", modproxy.ErrNotFound)
	case elsewhere:
		path := providerPath(v.Address, "v"+url.PathEscape(v.Version)+"/"+id+".md")
		return described(ctx, c, serviceOf{v.Host, tofuProviderDocs}, path, func(_ *reading, document []byte) (*modproxy.Text, error) {
			return &modproxy.Text{Content: clean.Prose(string(document))}, nil
		})
	}
	return described(ctx, c, serviceOf{v.Host, providerTexts}, id, func(r *reading, document []byte) (*modproxy.Text, error) {
		return r.text(document, id)
	})
}

// text reads the document with the number id, in JSON:API form.
func (r *reading) text(document []byte, id string) (*modproxy.Text, error) {
	var doc struct {
		Data struct {
			ID         string `json:"id"`
			Attributes struct {
				Content string `json:"content"`
			} `json:"attributes"`
		} `json:"data"`
	}
	switch {
	case !object(document, &doc):
		return nil, fmt.Errorf("%w: the document is not a JSON object", modproxy.ErrInvalid)
	case doc.Data.ID != id:
		return nil, fmt.Errorf("%w: the registry answers with document %.80q in its place", modproxy.ErrNotFound, doc.Data.ID)
	}
	return &modproxy.Text{Content: clean.Prose(doc.Data.Attributes.Content)}, nil
}

// provider reads the document about v, a version of a provider. If it is about another version, the error is
// [modproxy.ErrNotFound].
func (r *reading) provider(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		summary
		Logo string          `json:"logo_url"`
		Docs json.RawMessage `json:"docs"`
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
		if object(text, &one) && isNumber(one.ID) {
			d.Docs = append(d.Docs, keptDoc(one))
		}
	}
	return d, r.err
}

// isNumber reports whether s is the number of a document, in the only form that tools accept.
func isNumber(s string) bool {
	return s != "" && len(s) <= 18 && strings.Trim(s, "0123456789") == "" && s[0] != '0'
}

// keptDoc returns doc with cleaned texts, as the cache stores it.
func keptDoc(doc modproxy.Doc) modproxy.Doc {
	return modproxy.Doc{
		ID: doc.ID, Title: clean.Line(doc.Title), Path: clean.Line(doc.Path), Slug: clean.Line(doc.Slug), Category: clean.Line(doc.Category),
		Subcategory: clean.Line(doc.Subcategory), Language: clean.Line(doc.Language), Description: clean.Prose(doc.Description),
		Link: webURL(nil, doc.Link),
	}
}

// tofuCategories maps the document categories of the OpenTofu documentation API (registry-ui,
// backend/internal/providerindex/providertypes/provider_version.go) to the names of other registries.
var tofuCategories = map[string]string{
	"index": "overview", "resources": "resources", "datasources": "data-sources", "functions": "functions", "guides": "guides",
}

// docsProvider reads the description of v in the OpenTofu documentation API.
func (r *reading) docsProvider(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		ID        string          `json:"id"`
		Published string          `json:"published"`
		Link      string          `json:"link"`
		Docs      json.RawMessage `json:"docs"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.ID, v); err != nil {
		return nil, err
	}
	d := &modproxy.Details{Summary: modproxy.Summary{
		Ref: v, Source: webURL(nil, doc.Link), Tag: clean.Line(doc.ID), Published: date(doc.Published),
	}}
	for key, text := range r.elements(doc.Docs) {
		category, known := tofuCategories[key]
		switch {
		case !known:
		case key == "index":
			d.Docs = append(d.Docs, docsDoc(text, "", category)...)
		default:
			for _, one := range r.elements(text) {
				d.Docs = append(d.Docs, docsDoc(one, key+"/", category)...)
			}
		}
	}
	slices.SortStableFunc(d.Docs, func(a, b modproxy.Doc) int { return strings.Compare(a.Category+"/"+a.Slug, b.Category+"/"+b.Slug) })
	return d, r.err
}

// docsDoc reads one document. dir is its directory with a slash at the end, or empty.
func docsDoc(text json.RawMessage, dir, category string) []modproxy.Doc {
	var doc struct {
		Name        string `json:"name"`
		Title       string `json:"title"`
		Subcategory string `json:"subcategory"`
		Description string `json:"description"`
		Link        string `json:"edit_link"`
	}
	if !object(text, &doc) || !isDocName(doc.Name) {
		return nil
	}
	return []modproxy.Doc{keptDoc(modproxy.Doc{
		ID: dir + doc.Name, Title: doc.Title, Slug: doc.Name, Category: category, Subcategory: doc.Subcategory, Language: "hcl",
		Description: doc.Description, Link: doc.Link,
	})}
}

// docName has no upper bound, because a long counted repetition takes milliseconds of every start of the program.
var docName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// isDocName reports whether s is the name of a document, which is a segment of a path.
func isDocName(s string) bool { return len(s) <= 256 && docName.MatchString(s) }

// isDocPath reports whether s is the path of a document, without its extension.
func isDocPath(s string) bool {
	dir, name, below := strings.Cut(s, "/")
	if !below {
		return isDocName(s)
	}
	return tofuCategories[dir] != "" && dir != "index" && isDocName(name)
}
