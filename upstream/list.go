package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

const maxParts = 10 // answers that one list is assembled from

// listPath returns the path of the question for the modules that q selects, below the base URL of modules.v1.
func listPath(q modproxy.Query) string {
	query := url.Values{"offset": {strconv.Itoa(q.Offset)}, "limit": {strconv.Itoa(q.Limit)}}
	if q.System != "" {
		query.Set("provider", q.System)
	}
	if q.Verified {
		query.Set("verified", "true")
	}
	path := q.Namespace
	switch {
	case q.Search != "":
		path = "search"
		query.Set("q", q.Search)
		if q.Namespace != "" {
			query.Set("namespace", q.Namespace)
		}
	case q.Name != "":
		path += "/" + q.Name
	}
	return path + "?" + query.Encode()
}

// part is a part of a list. next is the offset of the following part, or zero if the registry gives none.
type part struct {
	*modproxy.Page
	next int
}

// list requests the modules that q selects. A registry may return fewer modules at a time than requested.
func (c *Client) list(ctx context.Context, q modproxy.Query) (*modproxy.Page, error) {
	all := &modproxy.Page{Modules: []modproxy.Summary{}}
	rest := q
	for range maxParts {
		read := func(r *reading, document []byte) (part, error) { return r.page(document, rest) }
		p, err := described(ctx, c, serviceOf{q.Host, moduleLists}, listPath(rest), read)
		if err != nil {
			return nil, err
		}
		all.Modules, all.More = append(all.Modules, p.Modules...), p.More
		if !p.More || p.next <= rest.Offset || p.next >= q.Offset+q.Limit {
			return all, nil
		}
		rest.Offset, rest.Limit = p.next, q.Offset+q.Limit-p.next
	}
	return nil, fmt.Errorf("%w: %d modules are more than %d answers of the registry have", modproxy.ErrUnavailable, q.Limit, maxParts)
}

// page reads a part of a list. It omits entries without a version or with an address that q does not select. A registry
// without paging lists everything it has; page returns the section that q selects.
func (r *reading) page(document []byte, q modproxy.Query) (part, error) {
	var doc struct {
		Meta struct {
			Limit  *int   `json:"limit"`
			Offset *int   `json:"current_offset"`
			Next   *int   `json:"next_offset"`
			URL    string `json:"next_url"`
		} `json:"meta"`
		Modules json.RawMessage `json:"modules"`
	}
	switch {
	case !object(document, &doc):
		return part{}, fmt.Errorf("%w: the list of modules is not a JSON object", modproxy.ErrInvalid)
	case len(doc.Modules) == 0 || doc.Modules[0] != '[':
		return part{}, fmt.Errorf("%w: the registry answers with something else than a list of modules", modproxy.ErrNotFound)
	}
	page := part{Page: &modproxy.Page{Modules: []modproxy.Summary{}}}
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
		page.Modules = append(page.Modules, r.summary(s, v))
	}
	switch pages := doc.Meta.Limit != nil || doc.Meta.Offset != nil; {
	case !pages:
		page.Modules = page.Modules[min(q.Offset, len(page.Modules)):]
	case doc.Meta.Next != nil:
		page.next = *doc.Meta.Next
		page.More = page.next > q.Offset && read > 0
	default:
		page.More = doc.Meta.URL != "" && read > 0
	}
	if len(page.Modules) > q.Limit {
		page.Modules, page.More = page.Modules[:q.Limit:q.Limit], true
	}
	return page, r.err
}

// selects reports whether q selects the address m. The comparison folds case, because not all registries do.
func selects(q modproxy.Query, m modproxy.Address) bool {
	return (q.Namespace == "" || strings.EqualFold(q.Namespace, m.Namespace)) &&
		(q.Name == "" || strings.EqualFold(q.Name, m.Name)) && (q.System == "" || strings.EqualFold(q.System, m.System))
}
