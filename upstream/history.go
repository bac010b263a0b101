package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// history reads the /v2/ document (JSON:API) about m, a module or a provider, and its versions.
func (r *reading) history(document []byte, m modproxy.Address) (*modproxy.History, error) {
	var doc struct {
		Data struct {
			Attributes struct {
				Owner       string `json:"owner-name"`
				Logo        string `json:"provider-logo-url"`
				OwnLogo     string `json:"logo-url"` // of a provider
				Source      string `json:"source"`
				Downloads   int64  `json:"downloads"`
				Verified    bool   `json:"verified"`
				Alias       string `json:"alias"`
				Tier        string `json:"tier"`
				Description string `json:"description"`
				Warning     string `json:"warning"`
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
			Type       string `json:"type"`
			Attributes struct {
				Version     string `json:"version"`
				Published   string `json:"published-at"`
				Description string `json:"description"`
				Tag         string `json:"tag"`
				Source      string `json:"source"`
				Downloads   int64  `json:"downloads"`
			} `json:"attributes"`
		}
		if a := &one.Attributes; object(text, &one) && one.Type == versions {
			all.add(modproxy.DatedVersion{
				Version: canonical(a.Version), Published: date(a.Published), Description: clean.Prose(a.Description),
				Tag: clean.Line(a.Tag), Source: webURL(nil, a.Source), Downloads: max(0, a.Downloads),
			})
		}
	}
	a := doc.Data.Attributes
	h := &modproxy.History{
		Module: m, Owner: clean.Line(a.Owner), Logo: webURL(r.from, a.Logo), Source: webURL(nil, a.Source),
		Downloads: max(0, a.Downloads), Verified: a.Verified, Versions: all.list(),
	}
	if m.IsProvider() {
		h.Logo, h.Alias, h.Tier = webURL(r.from, a.OwnLogo), clean.Line(a.Alias), clean.Line(a.Tier)
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

// datesOf returns the dates in h by version. If a version has several dates, the latest counts.
func datesOf(h *modproxy.History) map[string]time.Time {
	dates := map[string]time.Time{}
	for _, v := range h.Versions {
		if v.Published.After(dates[v.Version]) {
			dates[v.Version] = v.Published
		}
	}
	return dates
}

// downloads reads how often a module was downloaded.
func (r *reading) downloads(document []byte) (*modproxy.Downloads, error) {
	var doc struct {
		Data struct {
			Attributes json.RawMessage `json:"attributes"`
		} `json:"data"`
	}
	var counts struct {
		Week  int64 `json:"week"`
		Month int64 `json:"month"`
		Year  int64 `json:"year"`
		Total int64 `json:"total"`
	}
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
