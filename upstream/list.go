package upstream

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol/documents"
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
		read := func(document []byte, from *url.URL) (part, error) {
			page, next, err := documents.ParsePage(document, from, rest)
			return part{page, next}, err
		}
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
