package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

// Bounds of queries, those of the public registry.
const (
	defaultLimit = 15  // modules of a page of a list
	maxLimit     = 100 // the same
	maxSearch    = 256 // bytes of the words of a search
	maxPageSize  = 100 // documents of a page
)

// ListQuery returns the query of q, a list, with the parameters of its URL. It ignores parameters that it does not know. Every
// error is an [Error] with status 400.
func (q Request) ListQuery(rawQuery string) (list modproxy.Query, err error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return list, errQuery
	}
	list = modproxy.Query{Host: q.Host, Namespace: q.Namespace, Name: q.Name, Limit: defaultLimit}
	number := func(name string, into *int) {
		if text := values.Get(name); text != "" && err == nil {
			n, bad := strconv.ParseUint(text, 10, 31)
			if *into = int(n); bad != nil {
				err = Invalid(fmt.Errorf("%s %.80q: want a number below 2147483648", name, text))
			}
		}
	}
	number("limit", &list.Limit)
	number("offset", &list.Offset)
	if err != nil {
		return list, err
	}
	if list.Limit = min(list.Limit, maxLimit); list.Limit == 0 {
		return list, Invalid(errors.New("limit 0: want a number from 1 to 100"))
	}
	list.Search = strings.TrimSpace(strings.NewReplacer(`"`, " ", "'", " ").Replace(values.Get("q")))
	list.System = strings.ToLower(values.Get("provider"))
	switch namespace := values.Get("namespace"); {
	case namespace == "" || namespace == list.Namespace:
	case list.Namespace != "":
		return list, Invalid(fmt.Errorf("namespace %.80q: the path names %s", namespace, list.Namespace))
	default:
		list.Namespace = namespace
	}
	list.Verified = values.Get("verified") == "true"
	named := modproxy.Address{Namespace: "x", Name: "x", System: "x"}
	if list.Namespace != "" {
		named.Namespace = list.Namespace
	}
	if list.System != "" {
		named.System = list.System
	}
	switch err := named.Check(); {
	case err != nil:
		return list, Invalid(err)
	case len(list.Search) > maxSearch:
		return list, Invalid(fmt.Errorf("q: want at most %d bytes", maxSearch))
	case q.Kind == KindSearch && list.Search == "":
		return list, Invalid(errors.New("want ?q= with the words to look for"))
	}
	return list, nil
}

// PageQuery returns the query of another page of the list with this query, which [Request.ListQuery] has accepted.
func PageQuery(rawQuery string, limit, offset int) string {
	values, _ := url.ParseQuery(rawQuery)
	values.Set("limit", strconv.Itoa(limit))
	values.Set("offset", strconv.Itoa(offset))
	return values.Encode()
}

// A Selection is the query of a request for the documents of a version of a provider. Empty fields select all documents.
type Selection struct {
	modproxy.Ref
	Category, Subcategory, Language string
	Slugs                           []string
	Page                            int // its number, from 1
	Size                            int // documents of a page; positive
}

// ParseSelection reads the query of a request for documents of providers of host. It ignores parameters that it does not know.
// Every error is an [Error].
func ParseSelection(host, rawQuery string) (s Selection, err error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return s, errQuery
	}
	parts := strings.Split(values.Get("filter[provider-version]"), "/")
	if len(parts) != 3 {
		return s, Invalid(errors.New("filter[provider-version]: want the id of a version that /v2/providers/{namespace}/{type} has here"))
	}
	m, err := provider(host, parts[0], parts[1])
	if err == nil {
		s.Ref, err = providerVersion(m, parts[2], "")
	}
	if err != nil {
		return s, err
	}
	s.Category, s.Subcategory, s.Language = values.Get("filter[category]"), values.Get("filter[subcategory]"), values.Get("filter[language]")
	if slugs := values.Get("filter[slug]"); slugs != "" {
		s.Slugs = strings.Split(slugs, ",")
	}
	for name, into := range map[string]*int{"page[number]": &s.Page, "page[size]": &s.Size} {
		n, errNumber := strconv.ParseUint(cmp.Or(values.Get(name), "0"), 10, 31)
		if *into = int(n); errNumber != nil {
			return s, Invalid(fmt.Errorf("%s %.80q: want a number below 2147483648", name, values.Get(name)))
		}
	}
	s.Page = max(s.Page, 1)
	s.Size = min(cmp.Or(s.Size, maxPageSize), maxPageSize)
	return s, nil
}

// Of returns the documents that s selects, and the part of them on its page.
func (s Selection) Of(docs []modproxy.Doc) (all, page []modproxy.Doc) {
	is := func(want, have string) bool { return want == "" || want == have }
	for _, doc := range docs {
		if is(s.Category, doc.Category) && is(s.Subcategory, doc.Subcategory) && is(s.Language, doc.Language) &&
			(s.Slugs == nil || slices.Contains(s.Slugs, doc.Slug)) {
			all = append(all, doc)
		}
	}
	first := min(int64(s.Page-1)*int64(s.Size), math.MaxInt32)
	return all, all[min(int(first), len(all)):min(int(first)+s.Size, len(all))]
}
