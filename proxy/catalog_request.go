package proxy

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/modproxy/modproxy"
)

// Questions of the registry's own API. Those of a version, or of the latest one, are in the request like any other.
const (
	kindDetails   kind = "details"
	kindDownloads kind = "downloads"
	kindHistory   kind = "history"
	kindList      kind = "list"
	kindSearch    kind = "search"
)

const (
	historyPath = "v2/modules/"

	usualLimit = 15  // modules of a list, as registries have it
	maxLimit   = 100 // the same
	maxSearch  = 256 // bytes of the words to look for
)

// isList reports whether q is for a list of modules: Host, Namespace and Name are all that it has.
func (q request) isList() bool { return q.kind == kindList || q.kind == kindSearch }

// parseList reads the parts of what follows v1/modules/ in
//
//	[/{host}]/v1/modules[/]
//	[/{host}]/v1/modules/search
//	[/{host}]/v1/modules/{namespace}[/{name}]
//
// The list of a namespace with the name search cannot be asked for.
func parseList(parts []string) (q request, err error) {
	q.kind = kindList
	switch {
	case len(parts) == 1 && parts[0] == "":
		return q, nil
	case len(parts) == 1 && parts[0] == "search":
		q.kind = kindSearch
		return q, nil
	case len(parts) == 2:
		q.Name = parts[1]
	}
	q.Namespace = parts[0]
	whole := modproxy.Address{Namespace: q.Namespace, Name: q.Name, System: "x"}
	if len(parts) == 1 {
		whole.Name = "x"
	}
	if err := whole.Check(); err != nil {
		return q, invalid(err)
	}
	return q, nil
}

// parseHistory reads an escaped path of the registry's own API, sent to requestHost:
//
//	[/{host}]/v2/modules/{namespace}/{name}/{system}
func (u *Upstreams) parseHistory(requestHost, path string) (q request, err error) {
	before, rest, _ := strings.Cut(path, "/"+historyPath)
	parts, err := unescaped(rest)
	if err != nil {
		return q, err
	}
	if len(parts) != 3 || strings.Contains(strings.TrimPrefix(before, "/"), "/") {
		return q, notFound("want /{registry host}/v2/modules/{namespace}/{name}/{system} or /v2/modules/…")
	}
	q.kind = kindHistory
	q.Address = modproxy.Address{Namespace: parts[0], Name: parts[1], System: parts[2]}
	if err := q.Check(); err != nil {
		return q, invalid(err)
	}
	return u.hosted(q, requestHost, before)
}

// parseQuery reads what a list is to have. Parameters that it does not know do not count.
func parseQuery(q request, rawQuery string) (list modproxy.Query, err error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return list, errQuery
	}
	list = modproxy.Query{Host: q.Host, Namespace: q.Namespace, Name: q.Name, Limit: usualLimit}
	number := func(name string, into *int) {
		if text := values.Get(name); text != "" && err == nil {
			n, bad := strconv.ParseUint(text, 10, 31)
			if *into = int(n); bad != nil {
				err = invalid(fmt.Errorf("%s %.80q: want a number below 2147483648", name, text))
			}
		}
	}
	number("limit", &list.Limit)
	number("offset", &list.Offset)
	if err != nil {
		return list, err
	}
	if list.Limit = min(list.Limit, maxLimit); list.Limit == 0 {
		return list, invalid(errors.New("limit 0: want a number from 1 to 100"))
	}
	list.Search = strings.TrimSpace(strings.NewReplacer(`"`, " ", "'", " ").Replace(values.Get("q")))
	list.System = strings.ToLower(values.Get("provider"))
	switch namespace := values.Get("namespace"); {
	case namespace == "" || namespace == list.Namespace:
	case list.Namespace != "":
		return list, invalid(fmt.Errorf("namespace %.80q: the path names %s", namespace, list.Namespace))
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
		return list, invalid(err)
	case len(list.Search) > maxSearch:
		return list, invalid(fmt.Errorf("q: want at most %d bytes", maxSearch))
	case q.kind == kindSearch && list.Search == "":
		return list, invalid(errors.New("want ?q= with the words to look for"))
	}
	return list, nil
}
