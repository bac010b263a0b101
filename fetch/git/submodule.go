package git

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
)

// submodule is an entry of .gitmodules for one path.
type submodule struct {
	name string
	path string
	url  string // absolute, or relative to the URL of the repository with the .gitmodules file
	none bool   // not to be fetched
}

const maxModulesFile = 1 << 20 // bytes

// submodules returns the entries of commit's .gitmodules, which has size bytes, by path.
func (r *repository) submodules(ctx context.Context, commit string, size int64) (map[string]*submodule, error) {
	if size > maxModulesFile {
		return nil, invalid(".gitmodules is larger than %d bytes", maxModulesFile)
	}
	c := r.git("config", "--null", "--list", "--no-includes", "--blob", commit+":.gitmodules")
	list, err := c.output(ctx, 2*maxModulesFile)
	if failed, ok := errors.AsType[*exitError](err); ok {
		return nil, invalid(".gitmodules cannot be read%s", scrub(failed.stderr, false))
	}
	if err != nil {
		return nil, err
	}
	return parseSubmodules(list)
}

// parseSubmodules reads the output of git config --null --list for a .gitmodules file, as git submodule does
// (https://git-scm.com/docs/gitmodules). The last value of a key counts, and a path belongs to the last name that
// claims it. A name that could lead out of .git/modules is ignored, and so is a path or URL that could be an option.
func parseSubmodules(list string) (map[string]*submodule, error) {
	byName, byPath := make(map[string]*submodule), make(map[string]*submodule)
	for item := range strings.SplitSeq(list, "\x00") {
		key, value, hasValue := strings.Cut(item, "\n")
		name, variable, ok := submoduleKey(key)
		if !ok {
			continue
		}
		s := byName[name]
		if s == nil {
			s = &submodule{name: name}
			byName[name] = s
		}
		switch {
		case variable != "path" && variable != "url" && variable != "update":
		case !hasValue:
			return nil, invalid(".gitmodules: %.80q has no value", key)
		case variable == "update":
			if !slices.Contains([]string{"checkout", "rebase", "merge", "none"}, value) { // the first three mean the same here
				return nil, invalid(".gitmodules: %.80q is %.80q", key, value)
			}
			s.none = value == "none"
		case strings.HasPrefix(value, "-"):
		case variable == "url":
			s.url = value
		default:
			if byPath[s.path] == s {
				delete(byPath, s.path)
			}
			s.path, byPath[value] = value, s
		}
	}
	return byPath, nil
}

// submoduleKey splits submodule.<name>.<variable>.
func submoduleKey(key string) (name, variable string, ok bool) {
	rest, ok := strings.CutPrefix(key, "submodule.")
	dot := strings.LastIndexByte(rest, '.')
	if !ok || dot <= 0 {
		return "", "", false
	}
	name, variable = rest[:dot], rest[dot+1:]
	parts := strings.FieldsFunc(name, func(c rune) bool { return c == '/' || c == '\\' })
	return name, variable, !slices.Contains(parts, "..")
}

// relativeURL resolves url, which begins with ./ or ../, against the URL of the repository with the .gitmodules file,
// as git submodule does. Each ../ removes one part from the end, at the last slash, or at the last colon if no slash is
// left.
func relativeURL(parent, url string) (string, error) {
	parent = strings.TrimSuffix(parent, "/")
	separator := "/"
	for strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") {
		var part string
		if part, url, _ = strings.Cut(url, "/"); part == "." {
			continue
		}
		if i := strings.LastIndexByte(parent, '/'); i >= 0 {
			parent = parent[:i]
		} else if i := strings.LastIndexByte(parent, ':'); i >= 0 {
			parent, separator = parent[:i], ":"
		} else {
			return "", invalid("a relative URL that leaves its host")
		}
	}
	return strings.TrimSuffix(parent+separator+url, "/"), nil
}

// address returns the address of s, a submodule of the repository at parent.
func (s *submodule) address(parent address) (at address, err error) {
	url := s.url
	if strings.HasPrefix(url, "./") || strings.HasPrefix(url, "../") {
		if url, err = relativeURL(parent.String(), url); err != nil {
			return at, err
		}
	}
	return parseAddress(url)
}

// mirror returns the address of the mirror of a, or a if a has no mirror.
func (u *use) mirror(a address) (at address, err error) {
	l, mirrored, err := u.mirrors.Replace(modproxy.Location{Getter: "git", URL: a.url().String()})
	if err != nil || !mirrored {
		return a, err
	}
	return parseAddress(l.URL)
}

// fetchSubmodules fetches the submodules in links, the remaining entries of the tree of the repository that is named at. links has their
// commits by path.
func (u *use) fetchSubmodules(
	ctx context.Context, at address, links map[string]entry, byPath map[string]*submodule, prefix string, depth int,
) error {
	for _, path := range slices.Sorted(maps.Keys(links)) {
		s, ok := byPath[path]
		if ok && s.none {
			continue
		}
		u.submodules++
		switch {
		case !ok || s.url == "": // git submodule update also fails
			return invalid("submodule %.80q has no URL in .gitmodules", prefix+path)
		case depth >= u.limits.Depth:
			return invalid("submodule %.80q: more than %d submodules within each other", prefix+path, u.limits.Depth)
		case u.submodules > u.limits.Submodules:
			return invalid("submodule %.80q: more than the %d submodules that are allowed", prefix+path, u.limits.Submodules)
		}
		named, err := s.address(at)
		sub := named
		if err == nil {
			sub, err = u.mirror(named)
		}
		if err != nil {
			return fmt.Errorf("submodule %.80q: %w", prefix+path, err)
		}
		if _, err := u.repository(ctx, named, sub, links[path].id, prefix+path+"/", depth+1); err != nil {
			if sub != named {
				err = fetch.AtMirror(err, named.url())
			}
			return fmt.Errorf("submodule %.80q: %s commit %s: %w", prefix+path, sub, links[path].id, err)
		}
	}
	return nil
}
