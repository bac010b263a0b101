package documents

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/modproxy/modproxy"
)

type page struct {
	Meta    pageMeta  `json:"meta"`
	Modules []summary `json:"modules"`
}

type pageMeta struct {
	Limit   *int   `json:"limit"`
	Offset  *int   `json:"current_offset"`
	Next    *int   `json:"next_offset"`
	NextURL string `json:"next_url"`
	Prev    *int   `json:"prev_offset"`
	PrevURL string `json:"prev_url"`
}

// ParsePage reads a part of a list below /v1/. It omits entries without a version or with an address that q does not select. A
// registry without paging lists everything it has; ParsePage returns the section that q selects. next is the offset of the following
// part, or zero if the registry gives none. from is the URL of the document.
func ParsePage(document []byte, from *url.URL, q modproxy.Query) (p *modproxy.Page, next int, err error) {
	return newReading(from).page(document, q)
}

func (r *reading) page(document []byte, q modproxy.Query) (p *modproxy.Page, next int, err error) {
	var doc struct {
		Meta    pageMeta        `json:"meta"`
		Modules json.RawMessage `json:"modules"`
	}
	switch {
	case !object(document, &doc):
		return nil, 0, fmt.Errorf("%w: the list of modules is not a JSON object", modproxy.ErrInvalid)
	case len(doc.Modules) == 0 || doc.Modules[0] != '[':
		return nil, 0, fmt.Errorf("%w: the registry answers with something else than a list of modules", modproxy.ErrNotFound)
	}
	p = &modproxy.Page{Modules: []modproxy.Summary{}}
	known := map[modproxy.Address]bool{}
	read := 0
	for _, text := range r.elements(doc.Modules) {
		read++
		var s summary
		if !object(text, &s) {
			continue
		}
		v := modproxy.Address{Host: q.Host, Namespace: s.Namespace, Name: s.Name, System: s.System}.At(canonical(s.Version))
		if v.Version == "" || v.Check() != nil || known[v.Address] || !selects(q, v.Address) || q.Verified && !s.Verified {
			continue
		}
		known[v.Address] = true
		p.Modules = append(p.Modules, r.summary(s, v))
	}
	switch pages := doc.Meta.Limit != nil || doc.Meta.Offset != nil; {
	case !pages:
		p.Modules = p.Modules[min(q.Offset, len(p.Modules)):]
	case doc.Meta.Next != nil:
		next = *doc.Meta.Next
		p.More = next > q.Offset && read > 0
	default:
		p.More = doc.Meta.NextURL != "" && read > 0
	}
	if len(p.Modules) > q.Limit {
		p.Modules, p.More = p.Modules[:q.Limit:q.Limit], true
	}
	return p, next, r.err
}

// selects reports whether q selects the address m. The comparison folds case, because not all registries do.
func selects(q modproxy.Query, m modproxy.Address) bool {
	return (q.Namespace == "" || strings.EqualFold(q.Namespace, m.Namespace)) &&
		(q.Name == "" || strings.EqualFold(q.Name, m.Name)) && (q.System == "" || strings.EqualFold(q.System, m.System))
}

// FormatPage returns the document below /v1/ with the part of a list that q selects. at returns the URL of the part with an offset.
func FormatPage(q modproxy.Query, p *modproxy.Page, at func(offset int) string) any {
	doc := page{pageMeta{Limit: &q.Limit, Offset: &q.Offset}, make([]summary, len(p.Modules))}
	for i := range p.Modules {
		doc.Modules[i] = summaryOf(&p.Modules[i])
	}
	if p.More {
		next := q.Offset + q.Limit
		doc.Meta.Next, doc.Meta.NextURL = &next, at(next)
	}
	if q.Offset > 0 {
		before := max(0, q.Offset-q.Limit)
		doc.Meta.Prev, doc.Meta.PrevURL = &before, at(before)
	}
	return doc
}
