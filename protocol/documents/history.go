package documents

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
	"github.com/modproxy/modproxy/protocol"
)

// The types below have the form of JSON:API.

// resource is an object with a stable id. The ids of versions are addresses: tools put them into paths and filters, which are read as
// addresses.
type resource struct {
	Type          string            `json:"type"`
	ID            string            `json:"id"`
	Attributes    any               `json:"attributes,omitempty"`
	Relationships map[string]any    `json:"relationships,omitempty"`
	Links         map[string]string `json:"links,omitempty"`
}

// compound is a document about one resource, with the resources that it refers to.
type compound struct {
	Data     resource   `json:"data"`
	Included []resource `json:"included"`
}

// linkTo returns links with the path of a question about v under the registry's own name.
func linkTo(kind protocol.Kind, v modproxy.Ref) map[string]string {
	v.Host = ""
	return map[string]string{"self": protocol.Request{Kind: kind, Ref: v}.Path()}
}

type moduleAttributes struct {
	Downloads int64  `json:"downloads"`
	FullName  string `json:"full-name"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Owner     string `json:"owner-name"`
	Logo      string `json:"provider-logo-url"`
	System    string `json:"provider-name"`
	Source    string `json:"source"`
	Verified  bool   `json:"verified"`
}

type providerAttributes struct {
	Alias       string `json:"alias"`
	Description string `json:"description"`
	Downloads   int64  `json:"downloads"`
	Featured    bool   `json:"featured"`
	FullName    string `json:"full-name"`
	Logo        string `json:"logo-url"`
	Name        string `json:"name"`
	Namespace   string `json:"namespace"`
	Owner       string `json:"owner-name"`
	NoIndex     bool   `json:"robots-noindex"`
	Source      string `json:"source"`
	Tier        string `json:"tier"`
	Unlisted    bool   `json:"unlisted"`
	Warning     string `json:"warning"`
}

type versionAttributes struct {
	Created     timestamp `json:"created-at"`
	Description string    `json:"description"`
	Downloads   int64     `json:"downloads"`
	Published   timestamp `json:"published-at"`
	Source      string    `json:"source"`
	Tag         string    `json:"tag"`
	Updated     timestamp `json:"updated-at"`
	Version     string    `json:"version"`
}

type providerVersionAttributes struct {
	Description string    `json:"description"`
	Downloads   int64     `json:"downloads"`
	Published   timestamp `json:"published-at"`
	Tag         string    `json:"tag"`
	Version     string    `json:"version"`
}

// ParseHistory reads the document below /v2/ about m, a module or a provider, and its versions. from is the URL of the document.
func ParseHistory(document []byte, from *url.URL, m modproxy.Address) (*modproxy.History, error) {
	return newReading(from).history(document, m)
}

func (r *reading) history(document []byte, m modproxy.Address) (*modproxy.History, error) {
	var doc struct {
		Data struct {
			Attributes struct { // those of a module and of a provider
				providerAttributes
				ModuleLogo string `json:"provider-logo-url"`
				Verified   bool   `json:"verified"`
			} `json:"attributes"`
		} `json:"data"`
		Included json.RawMessage `json:"included"`
	}
	if !object(document, &doc) {
		return nil, fmt.Errorf("%w: what describes the versions is not a JSON object", modproxy.ErrInvalid)
	}
	all, versions := dated{}, "module-versions"
	if m.IsProvider() {
		versions = "provider-versions"
	}
	for _, text := range r.elements(doc.Included) {
		var one struct {
			Type       string            `json:"type"`
			Attributes versionAttributes `json:"attributes"`
		}
		if a := &one.Attributes; object(text, &one) && one.Type == versions {
			all.add(modproxy.DatedVersion{
				Version: canonical(a.Version), Published: a.Published.Time, Description: clean.Prose(a.Description),
				Tag: clean.Line(a.Tag), Source: webURL(nil, a.Source), Downloads: max(0, a.Downloads),
			})
		}
	}
	a := doc.Data.Attributes
	h := &modproxy.History{
		Module: m, Owner: clean.Line(a.Owner), Logo: webURL(r.from, a.ModuleLogo), Source: webURL(nil, a.Source),
		Downloads: max(0, a.Downloads), Verified: a.Verified, Versions: all.list(),
	}
	if m.IsProvider() {
		h.Logo, h.Alias, h.Tier = webURL(r.from, a.Logo), clean.Line(a.Alias), clean.Line(a.Tier)
		h.Description, h.Warning = clean.Prose(a.Description), clean.Prose(a.Warning)
	}
	return h, r.err
}

// dated has versions by their canonical spelling.
type dated map[string]modproxy.DatedVersion

// add adds a version. If two versions have the same spelling, the later one counts.
func (d dated) add(v modproxy.DatedVersion) {
	if known, twice := d[v.Version]; v.Version != "" && (!twice || v.Published.After(known.Published)) {
		d[v.Version] = v
	}
}

func (d dated) list() []modproxy.DatedVersion {
	list := make([]modproxy.DatedVersion, 0, len(d))
	for _, version := range slices.Sorted(maps.Keys(d)) {
		list = append(list, d[version])
	}
	return list
}

// FormatHistory returns the document below /v2/ about a module or a provider, and its versions.
func FormatHistory(h *modproxy.History) any {
	m := h.Module
	id, root := idOf(m), linkTo(protocol.KindHistory, m.At(""))
	switch m.Kind() {
	case modproxy.Provider:
		attributes := providerAttributes{
			Alias: h.Alias, Description: h.Description, Downloads: h.Downloads, FullName: id, Logo: h.Logo, Name: m.Name,
			Namespace: m.Namespace, Owner: h.Owner, Source: h.Source, Tier: h.Tier, Warning: h.Warning,
		}
		ids, included := versionsOf(h, "provider-versions", protocol.KindProviderVersion, func(v modproxy.DatedVersion) any {
			return providerVersionAttributes{v.Description, v.Downloads, timestamp{v.Published}, v.Tag, v.Version}
		})
		related := map[string]any{"data": ids, "links": map[string]string{"related": root["self"] + "/provider-versions"}}
		return compound{resource{"providers", id, attributes, map[string]any{"provider-versions": related}, root}, included}
	case modproxy.Module:
	}
	attributes := moduleAttributes{h.Downloads, id, m.Name, m.Namespace, h.Owner, h.Logo, m.System, h.Source, h.Verified}
	ids, included := versionsOf(h, "module-versions", protocol.KindDetails, func(v modproxy.DatedVersion) any {
		at := timestamp{v.Published}
		return versionAttributes{at, v.Description, v.Downloads, at, v.Source, v.Tag, at, v.Version}
	})
	return compound{resource{"modules", id, attributes, map[string]any{"module-versions": map[string]any{"data": ids}}, root}, included}
}

// versionsOf returns the versions of h as resources of a type, without and with their attributes. link is the question whose path
// a version has.
func versionsOf(h *modproxy.History, typ string, link protocol.Kind, attributes func(modproxy.DatedVersion) any) (ids, full []resource) {
	ids, full = make([]resource, 0, len(h.Versions)), make([]resource, 0, len(h.Versions))
	for _, v := range h.Versions {
		id := resource{Type: typ, ID: idOf(h.Module) + "/" + v.Version}
		ids = append(ids, id)
		full = append(full, resource{Type: id.Type, ID: id.ID, Attributes: attributes(v), Links: linkTo(link, h.Module.At(v.Version))})
	}
	return ids, full
}

type downloadsAttributes struct {
	Month int64 `json:"month"`
	Total int64 `json:"total"`
	Week  int64 `json:"week"`
	Year  int64 `json:"year"`
}

// ParseDownloads reads how often a module was downloaded.
func ParseDownloads(document []byte) (*modproxy.Downloads, error) {
	var doc struct {
		Data struct {
			Attributes json.RawMessage `json:"attributes"`
		} `json:"data"`
	}
	var counts downloadsAttributes
	switch {
	case !object(document, &doc):
		return nil, fmt.Errorf("%w: the summary of downloads is not a JSON object", modproxy.ErrInvalid)
	case !object(doc.Data.Attributes, &counts):
		return nil, fmt.Errorf("%w: the summary of downloads has no counts", modproxy.ErrNotFound)
	}
	return &modproxy.Downloads{
		Week: max(0, counts.Week), Month: max(0, counts.Month), Year: max(0, counts.Year), Total: max(0, counts.Total),
	}, nil
}

// FormatDownloads returns the document about the number of downloads of m.
func FormatDownloads(m modproxy.Address, d *modproxy.Downloads) any {
	return map[string]any{"data": resource{
		Type: "module-downloads-summary", ID: idOf(m), Attributes: downloadsAttributes{d.Month, d.Total, d.Week, d.Year},
	}}
}
