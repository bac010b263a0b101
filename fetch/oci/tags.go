package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
)

var _ fetch.Tagger = (*Getter)(nil)

const (
	maxTags  = 50_000   // that match
	maxList  = 16 << 20 // bytes of all pages
	maxPages = 1000     // requests for one list, including those for tokens

	pageQuery = "n=1000" // tags in a page; a registry may choose fewer
)

// Tags implements [fetch.Tagger] with the list of the registry. It has no commits. Tags reads at
// most 16 MiB and returns at most 50,000 tags.
func (g *Getter) Tags(ctx context.Context, s fetch.Source, prefixes ...string) ([]fetch.Tag, error) {
	s.Budget = egress.NewBudget(maxPages)
	v, err := g.visit(s)
	if err != nil {
		return nil, err
	}
	names, err := v.tags(ctx, prefixes)
	if err != nil {
		return nil, v.failed("tags of "+v.repository(), err)
	}
	var tags []fetch.Tag
	for _, name := range names {
		tags = append(tags, fetch.Tag{Name: name})
	}
	return tags, nil
}

// NamedTags implements [fetch.Tagger]. It requests the manifest of each tag.
func (g *Getter) NamedTags(ctx context.Context, s fetch.Source, names ...string) (tags []fetch.Tag, err error) {
	v, err := g.visit(s)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !IsTag(name) }) {
		v.tag, v.digest = name, ""
		_, _, _, err := v.resolve(ctx)
		switch {
		case err == nil:
			tags = append(tags, fetch.Tag{Name: name, Commit: digits(v.digest)})
		case !errors.Is(err, modproxy.ErrNotFound):
			return nil, v.failed(v.String(), err)
		}
	}
	return tags, nil
}

// tags returns the names of the tags, page by page, in order.
func (v *visit) tags(ctx context.Context, prefixes []string) ([]string, error) {
	found := map[string]bool{}
	left := int64(maxList)
	first := v.url("tags/list")
	first.RawQuery = pageQuery
	for next := first; next != nil; {
		body, header, _, err := v.document(ctx, egress.Request{URL: next.String(), MaxBytes: left})
		if err != nil {
			return nil, err
		}
		if left -= int64(len(body)); left <= 0 {
			return nil, fmt.Errorf("%w: the list has more than %d bytes", modproxy.ErrInvalid, maxList)
		}
		var page struct {
			Tags []string `json:"tags"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("%w: the list: %w", modproxy.ErrInvalid, err)
		}
		for _, name := range page.Tags {
			switch {
			case !IsTag(name):
				return nil, fmt.Errorf("%w: the list has %.80q, which is not a tag", modproxy.ErrInvalid, name)
			case slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
				found[name] = true
			}
		}
		if len(found) > maxTags {
			return nil, fmt.Errorf("%w: more than %d tags match", modproxy.ErrInvalid, maxTags)
		}
		if next, err = nextPage(next, header); err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// nextPage returns the URL of the page that a header Link with rel="next" names, or nil. Only the query of the link is used: proxies may
// change the rest.
func nextPage(before *url.URL, header http.Header) (*url.URL, error) {
	for _, link := range header.Values("Link") {
		target, parameters, isLink := strings.Cut(strings.TrimPrefix(strings.TrimSpace(link), "<"), ">")
		if !isLink || !strings.Contains(strings.ReplaceAll(parameters, `"`, ""), "rel=next") {
			continue
		}
		to, err := before.Parse(target)
		if err != nil || to.RawQuery == before.RawQuery {
			return nil, fmt.Errorf("%w: the list does not continue", modproxy.ErrInvalid)
		}
		next := *before
		next.RawQuery = to.RawQuery
		return &next, nil
	}
	return nil, nil
}
