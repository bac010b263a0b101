package git

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

var _ fetch.Tagger = (*Getter)(nil)

const (
	tagsPrefix = "refs/tags/"
	maxTags    = 50_000   // that match
	maxList    = 16 << 20 // bytes of the list of refs
)

// Tags implements [fetch.Tagger] with the remote's list of refs. It reads at most 16 MiB and returns at most 50,000 tags.
func (g *Getter) Tags(ctx context.Context, s fetch.Source, prefixes ...string) ([]fetch.Tag, error) {
	a, _, err := named(s)
	if err != nil {
		return nil, err
	}
	u := g.use(s, nil)
	ctx, stop := u.bound(ctx)
	defer stop()
	var tags []fetch.Tag
	err = u.redirected(a, func(at address) (err error) {
		tags, err = u.tags(ctx, at, prefixes)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("git ls-remote --tags %s: %w", a, err)
	}
	return tags, nil
}

// NamedTags implements [fetch.Tagger].
func (g *Getter) NamedTags(ctx context.Context, s fetch.Source, names ...string) ([]fetch.Tag, error) {
	tags, err := g.Tags(ctx, s, names...)
	return slices.DeleteFunc(tags, func(tag fetch.Tag) bool { return !slices.Contains(names, tag.Name) }), err
}

// tags returns the tags of the repository at a whose names begin with one of prefixes.
func (u *use) tags(ctx context.Context, a address, prefixes []string) (_ []fetch.Tag, err error) {
	r, err := u.open(ctx, a, min(u.limits.Received, maxList))
	if err != nil {
		return nil, err
	}
	r.refs = true
	defer func() { err = cmp.Or(err, u.close(r)) }()
	found := newTagList(prefixes)
	err = r.listDirect(ctx, found)
	if isPage := isPage(err); r.otherwise(err) {
		if err = r.init("sha1"); err == nil {
			found = newTagList(prefixes)
			format := ""
			format, err = r.list(ctx, found, "--tags")
			if err == nil && isPage && format == "" { // for git, any text without line ends is a list of no refs
				err = fmt.Errorf("%w: %s answers with a page, not with git's protocol", modproxy.ErrUnavailable, a.origin())
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return found.tags(), nil
}

// tagList is a list of the tags whose names begin with one of wanted.
type tagList struct {
	wanted []string // without refs/tags/
	// By name without refs/tags/: the ids of tags, and those of the commits that annotated tags name.
	ids, peeled map[string]string
}

func newTagList(wanted []string) *tagList {
	return &tagList{wanted, map[string]string{}, map[string]string{}}
}

// prefixes implements [refReader].
func (l *tagList) prefixes() (all []string) {
	for _, prefix := range l.wanted {
		all = append(all, tagsPrefix+prefix)
	}
	return all
}

// see implements [refReader]. Servers may ignore the prefixes of a request.
func (l *tagList) see(id, name string) error {
	name, isTag := strings.CutPrefix(name, tagsPrefix)
	if !isTag || !slices.ContainsFunc(l.wanted, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return nil
	}
	ids := l.ids
	name, isPeeled := strings.CutSuffix(name, "^{}")
	if isPeeled {
		ids = l.peeled
	}
	id = strings.ToLower(id)
	known, isKnown := ids[name]
	switch {
	case isKnown && known != id:
		return invalid("the list of refs has the tag %.80q twice, with different ids", name)
	case !isKnown && len(ids) == maxTags:
		return invalid("more than %d tags match", maxTags)
	}
	ids[name] = id
	return nil
}

// tags returns the tags in order of their names.
func (l *tagList) tags() (all []fetch.Tag) {
	for _, name := range slices.Sorted(maps.Keys(l.ids)) {
		all = append(all, fetch.Tag{Name: name, Commit: cmp.Or(l.peeled[name], l.ids[name])})
	}
	return all
}
