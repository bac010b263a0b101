package documents

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// docsProvider is a version of a provider in the form of registry-ui of OpenTofu
// (backend/internal/providerindex/providertypes/provider_version.go).
type docsProvider struct {
	docsVersion
	Docs  docsLists            `json:"docs"`
	CDKTF map[string]docsLists `json:"cdktf_docs"`
	Link  string               `json:"link"`
}

type docsLists struct {
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

// docsCategories maps the document categories of that API to the names of other registries.
var docsCategories = map[string]string{
	"index": "overview", "resources": "resources", "datasources": "data-sources", "functions": "functions", "guides": "guides",
}

// docsProvider reads the description of v, a version of a provider.
func (r *reading) docsProvider(document []byte, v modproxy.Ref) (*modproxy.Details, error) {
	var doc struct {
		docsVersion
		Link string          `json:"link"`
		Docs json.RawMessage `json:"docs"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes a version is not a JSON object", modproxy.ErrInvalid)
	}
	if err := isAbout(doc.ID, v); err != nil {
		return nil, err
	}
	d := &modproxy.Details{Summary: modproxy.Summary{
		Ref: v, Source: webURL(nil, doc.Link), Tag: clean.Line(doc.ID), Published: doc.Published.Time,
	}}
	for key, text := range r.elements(doc.Docs) {
		category, known := docsCategories[key]
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
	var doc docsItem
	if !object(text, &doc) || !isDocName(doc.Name) {
		return nil
	}
	return []modproxy.Doc{cleaned(modproxy.Doc{
		ID: dir + doc.Name, Title: doc.Title, Slug: doc.Name, Category: category, Subcategory: doc.Subcategory, Language: "hcl",
		Description: doc.Description, Link: doc.Link,
	})}
}

// docName has no upper bound, because a long counted repetition takes milliseconds of every start of the program.
var docName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// isDocName reports whether s is the name of a document, which is a segment of a path.
func isDocName(s string) bool { return len(s) <= 256 && docName.MatchString(s) }

// IsDocPath reports whether s is the path of a document of a provider in that API, without its extension.
func IsDocPath(s string) bool {
	dir, name, below := strings.Cut(s, "/")
	if !below {
		return isDocName(s)
	}
	return docsCategories[dir] != "" && dir != "index" && isDocName(name)
}

// docsOf returns the documents of a version by category.
func docsOf(docs []modproxy.Doc) docsLists {
	all := docsLists{Resources: []docsItem{}, Sources: []docsItem{}, Functions: []docsItem{}, Guides: []docsItem{}}
	for _, doc := range docs {
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
	return all
}
