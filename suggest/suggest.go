// Package suggest finds module calls of git repositories, and suggests addresses for the modules.
//
//	calls, problems, err := suggest.Find(ctx, tfconfig.NewReader(nil, 0), "live")
//	s := calls.Suggest("modules.example.com")
//
// A [Suggestion] has entries for the configuration key modules, and a new source and version for each call whose ref is the tag of a
// version.
//
// Invariants: the new source and version of a call lead, through the first mapping that matches the address, to the repository, the
// directory and the tag of the old source. No text contains a password, a token or a key of a source. Nothing is sent over the
// network, and no file changes.
//
// The sources are those of go-getter, see [modproxy.ParseLocation]; the mappings are those of package upstream/tags.
package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/tfconfig"
	"github.com/modproxy/modproxy/upstream/tags"
)

// Suggestion is the result of [Calls.Suggest].
type Suggestion struct {
	Mappings []Mapping // in the order in which they must be configured: the first one that matches counts
	Changes  []Change  // by file
	Rest     []Rest    // by file
}

// Mapping is an entry of the configuration key modules. See [tags.ParseMapping].
type Mapping struct {
	Address string   `json:"address"`
	Source  string   `json:"source"`
	Path    string   `json:"path,omitempty"`
	Tags    string   `json:"tags,omitempty"`
	Modules int      `json:"modules"`           // called modules that it matches
	Remarks []string `json:"remarks,omitempty"` // for the operator
}

// Change is the new source of a call.
type Change struct {
	tfconfig.Pos
	Old     string `json:"old"`
	Source  string `json:"source"`
	Version string `json:"version"`
}

// Rest is a call whose source stays as it is until it names a version.
type Rest struct {
	tfconfig.Pos
	Old    string `json:"old,omitempty"` // empty if it is not known
	Reason string `json:"reason"`
}

// maxCalls bounds the calls that are remembered, and the problems of configurations.
const maxCalls = 50_000

// Calls are the calls of git repositories in configurations.
type Calls struct {
	all        []call
	rest       []Rest
	namespaces map[modproxy.Address]bool // of called modules of registries: Host and Namespace
}

// Add adds a call with the source s if the source is a git repository or unknown. The error is [modproxy.ErrInvalid]: there are too many.
func (c *Calls) Add(s tfconfig.Source) error {
	if _, isLocal := tfconfig.ParseLocalSource(".", s.Source); isLocal {
		return nil
	}
	if m, _, isModule := tfconfig.ParseRegistrySource(s.Source, "registry.invalid"); isModule {
		if c.namespaces == nil {
			c.namespaces = map[modproxy.Address]bool{}
		}
		c.namespaces[modproxy.Address{Host: m.Host, Namespace: strings.ToLower(m.Namespace)}] = true
		return nil
	}
	called, isGit, err := parse(s)
	switch {
	case err != nil:
		c.rest = append(c.rest, Rest{s.Pos, called.old, err.Error()})
	case isGit:
		c.all = append(c.all, called)
	}
	if len(c.all)+len(c.rest) > maxCalls {
		return fmt.Errorf("%w: %s: more than %d calls of git repositories; name a directory with fewer", modproxy.ErrInvalid, s.Place(), maxCalls)
	}
	return nil
}

// CheckHost returns an error if no source address can have the host.
func CheckHost(host string) error {
	if _, _, ok := tfconfig.ParseRegistrySource(hostname.Display(host)+"/acme/vpc/aws", ""); !ok {
		return fmt.Errorf("%.200q is not the host of a registry to clients: want a name with a dot, such as modules.example.com", host)
	}
	return nil
}

// Suggest returns mappings and sources whose addresses have the host, which is normalised. See [CheckHost].
func (c *Calls) Suggest(host string) Suggestion {
	out := Suggestion{Rest: slices.Clone(c.rest)}
	modules := newNamer(host, c.namespaces).modules(c.all)
	for _, called := range c.all {
		m := modules[called.module()]
		change := Change{Pos: called.Pos, Old: called.old, Version: called.version}
		change.Source = hostname.Display(host) + "/" + m.literal.Address
		if sub := called.subdir(); sub != "" {
			change.Source += "//" + sub
		}
		if err := m.check(change, called); err != nil {
			out.Rest = append(out.Rest, Rest{called.Pos, called.old, err.Error()})
			continue
		}
		m.isCalled = true
		out.Changes = append(out.Changes, change)
	}
	out.Mappings = mappings(modules)
	slices.SortStableFunc(out.Rest, func(a, b Rest) int { return a.Compare(b.Pos) })
	return out
}

// check returns the reason why the module of a call cannot have a mapping, or the call cannot have its new source.
func (m *module) check(change Change, called call) error {
	if _, err := tags.ParseMapping(m.literal.Address, m.literal.Source, m.literal.Path, m.literal.Tags); err != nil {
		return fmt.Errorf("no mapping can have this source: %w", err)
	}
	if before := strings.TrimSuffix(called.tags, versionPlaceholder); strings.Contains(before, "{") {
		return fmt.Errorf("no mapping can have a tag that begins with %.100q", before)
	}
	_, subdir, ok := tfconfig.ParseRegistrySource(change.Source, "")
	if want := cmp.Or(called.subdir(), "."); !ok || subdir != want || strings.ContainsAny(want, "*?[]") {
		return fmt.Errorf("the directory %.200q cannot follow the address of a module", called.subdir())
	}
	return nil
}

// repository is a git repository.
type repository struct {
	id  string // equal for the URLs of one repository by https and ssh
	url string // with getter, without a password and a query
}

// parseRepository reads the URL of a location. hasSecret reports whether the URL has one, which the result does not have.
func parseRepository(u *url.URL) (r repository, hasSecret bool, err error) {
	_, hasSecret = u.User.Password()
	clean := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	host := clean.Host
	switch clean.Scheme {
	case "ssh":
		host = clean.Hostname() // forges have other ports for ssh
		if name := u.User.Username(); name != "" {
			clean.User = url.User(name)
		}
	case "https", "http":
		hasSecret = hasSecret || u.User != nil
		host = strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[clean.Scheme])
	default:
		return r, hasSecret, fmt.Errorf("modproxy downloads from git by https and ssh, not by %.40q", u.Scheme)
	}
	clean.Path, clean.RawPath = strings.TrimRight(clean.Path, "/"), strings.TrimRight(clean.RawPath, "/")
	path := strings.TrimSuffix(strings.Trim(clean.EscapedPath(), "/"), ".git")
	if host == "" || path == "" {
		return r, hasSecret, errors.New("its source is not the URL of a repository")
	}
	return repository{host + "/" + path, "git::" + clean.String()}, hasSecret, nil
}
