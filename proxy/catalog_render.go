package proxy

import (
	"context"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/httpx"
	"github.com/modproxy/modproxy/protocol"
)

// renderKey identifies a rendered document: an answer of the catalog, its form, and the entity tag of the list of versions. The answer
// is not changed.
type renderKey struct {
	of       any // a weak pointer to the answer, which may be much larger than the document
	kind     protocol.Kind
	versions string
}

const (
	maxRendered = 32 << 20 // bytes of documents in memory
	renderedFor = time.Hour
)

// renderedOf returns the remembered document for k, or the one that make makes of an answer of size bytes.
func (h *Handler) renderedOf(ctx context.Context, k renderKey, size int64, make func() any) (*httpx.Document, error) {
	if d, ok := h.rendered.Get(k); ok {
		return d, nil
	}
	return h.documents.Make(ctx, size, func() (*httpx.Document, error) {
		if d, ok := h.rendered.Get(k); ok { // another request has made it meanwhile
			return d, nil
		}
		d, err := httpx.NewDocument(make())
		if err == nil {
			h.rendered.Add(k, d, renderedFor, d.Size())
		}
		return d, err
	})
}

// summary is a version in a list, with the names of the registry API
// (https://developer.hashicorp.com/terraform/registry/api-docs).
type summary struct {
	ID        string    `json:"id"`
	Owner     string    `json:"owner"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	Provider  string    `json:"provider"`
	Logo      string    `json:"provider_logo_url"`
	About     string    `json:"description"`
	Source    string    `json:"source"`
	Tag       string    `json:"tag"`
	Published time.Time `json:"published_at"`
	Downloads int64     `json:"downloads"`
	Verified  bool      `json:"verified"`
}

func summaryOf(s *modproxy.Summary) summary {
	return summary{
		idOf(s.Address) + "/" + s.Version, s.Owner, s.Namespace, s.Name, s.Version, s.System, s.Logo, s.Description, s.Source,
		s.Tag, s.Published, s.Downloads, s.Verified,
	}
}

// idOf returns the name of a module or a provider within its registry.
func idOf(m modproxy.Address) string {
	if m.IsProvider() {
		return m.Namespace + "/" + m.Name
	}
	return m.Namespace + "/" + m.Name + "/" + m.System
}

type pageDocument struct {
	Meta    pageMeta  `json:"meta"`
	Modules []summary `json:"modules"`
}

type pageMeta struct {
	Limit   int    `json:"limit"`
	Offset  int    `json:"current_offset"`
	Next    *int   `json:"next_offset"`
	NextURL string `json:"next_url"`
	Prev    *int   `json:"prev_offset"`
	PrevURL string `json:"prev_url"`
}

type detailsDocument struct {
	summary
	Root        modproxy.Part         `json:"root"`
	Submodules  []modproxy.Part       `json:"submodules"`
	Examples    []modproxy.Part       `json:"examples"`
	Providers   []string              `json:"providers"`
	Versions    []string              `json:"versions"`
	Deprecation *modproxy.Deprecation `json:"deprecation"`
}

func detailsOf(d *modproxy.Details, list *modproxy.Versions) detailsDocument {
	return detailsDocument{
		summaryOf(&d.Summary), withLists(d.Root), allWithLists(d.Submodules), allWithLists(d.Examples),
		slices.Sorted(slices.Values(append([]string{d.System}, d.Systems...))), ascending(list), d.Deprecation,
	}
}

// ascending returns the versions of a list, the oldest first.
func ascending(list *modproxy.Versions) []string {
	sorted := slices.SortedFunc(func(yield func(modproxy.Version) bool) {
		for _, l := range list.List {
			if !yield(l.Version) {
				return
			}
		}
	}, modproxy.Version.Compare)
	names := make([]string, len(sorted))
	for i, v := range sorted {
		names[i] = v.String()
	}
	return names
}

// withLists returns p with empty lists instead of nil: clients do not expect null.
func withLists(p modproxy.Part) modproxy.Part {
	p.Inputs, p.Outputs, p.Calls = notNil(p.Inputs), notNil(p.Outputs), notNil(p.Calls)
	p.Providers, p.Resources = notNil(p.Providers), notNil(p.Resources)
	return p
}

func allWithLists(list []modproxy.Part) []modproxy.Part {
	all := make([]modproxy.Part, len(list))
	for i, p := range list {
		all[i] = withLists(p)
	}
	return all
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// The types below have the form of JSON:API (https://jsonapi.org/format/).

// resource is an object with a stable id.
type resource struct {
	Type          string         `json:"type"`
	ID            string         `json:"id"`
	Attributes    any            `json:"attributes,omitempty"`
	Relationships map[string]any `json:"relationships,omitempty"`
	Links         *resourceLinks `json:"links,omitempty"`
}

type resourceLinks struct {
	Self string `json:"self"`
}

// linkTo returns the path of a question about v under the registry's own name.
func linkTo(kind protocol.Kind, v modproxy.Ref) string {
	v.Host = ""
	return protocol.Request{Kind: kind, Ref: v}.Path()
}

type historyDocument struct {
	Data     resource   `json:"data"`
	Included []resource `json:"included"`
}

type historyAttributes struct {
	Downloads int64  `json:"downloads"`
	FullName  string `json:"full-name"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Owner     string `json:"owner-name"`
	Logo      string `json:"provider-logo-url"`
	Provider  string `json:"provider-name"`
	Source    string `json:"source"`
	Verified  bool   `json:"verified"`
}

type versionAttributes struct {
	Created   time.Time `json:"created-at"`
	About     string    `json:"description"`
	Downloads int64     `json:"downloads"`
	Published time.Time `json:"published-at"`
	Source    string    `json:"source"`
	Tag       string    `json:"tag"`
	Updated   time.Time `json:"updated-at"`
	Version   string    `json:"version"`
}

func historyOf(h *modproxy.History) historyDocument {
	m, id := h.Module, idOf(h.Module)
	var ids []resource
	included := make([]resource, 0, len(h.Versions))
	for _, v := range h.Versions {
		one := resource{Type: "module-versions", ID: id + "/" + v.Version}
		ids = append(ids, one)
		one.Attributes = versionAttributes{v.Published, v.Description, v.Downloads, v.Published, v.Source, v.Tag, v.Published, v.Version}
		one.Links = &resourceLinks{linkTo(protocol.KindDetails, m.At(v.Version))}
		included = append(included, one)
	}
	return historyDocument{resource{
		Type: "modules", ID: id,
		Attributes:    historyAttributes{h.Downloads, id, m.Name, m.Namespace, h.Owner, h.Logo, m.System, h.Source, h.Verified},
		Relationships: map[string]any{"module-versions": map[string]any{"data": notNil(ids)}},
		Links:         &resourceLinks{linkTo(protocol.KindHistory, m.At(""))},
	}, included}
}

type downloadsAttributes struct {
	Month int64 `json:"month"`
	Total int64 `json:"total"`
	Week  int64 `json:"week"`
	Year  int64 `json:"year"`
}

func downloadsOf(m modproxy.Address, d *modproxy.Downloads) map[string]any {
	return map[string]any{"data": resource{
		Type: "module-downloads-summary", ID: idOf(m), Attributes: downloadsAttributes{d.Month, d.Total, d.Week, d.Year},
	}}
}
