package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// anySystem is the target system of a module whose names show no provider.
const anySystem = "any"

const (
	namePlaceholder    = "{name}"
	systemPlaceholder  = "{system}"
	versionPlaceholder = "{version}"
)

// module is a called module.
type module struct {
	literal  Mapping // for this module only
	pattern  Mapping // by the convention that its names follow; zero without one
	isCalled bool    // the new source of a call has its address
}

// namer chooses the addresses of modules.
type namer struct {
	foreign      map[string]bool       // the namespaces of modules and providers of other registries
	repositories map[string]*spellings // by id
	used         map[string]string     // the sources of the modules that have an address
}

// newNamer returns a namer for modules of a host, in configurations that use the namespaces of registries. See [Calls].
func newNamer(host string, namespaces map[modproxy.Address]bool) *namer {
	n := &namer{foreign: map[string]bool{}, repositories: map[string]*spellings{}, used: map[string]string{}}
	n.foreign["hashicorp"] = true // the namespace of providers without one
	for m := range namespaces {
		if m.Host != host {
			n.foreign[m.Namespace] = true
		}
	}
	return n
}

// spellings are the URLs of one repository.
type spellings struct {
	urls      map[string]bool
	hasSecret bool
}

// best returns the URL for a mapping: by https rather than ssh, and with .git.
func (s *spellings) best() string {
	rank := func(url string) int {
		starts := []string{"git::https:", "git::ssh:", ""}
		n := 2 * slices.IndexFunc(starts, func(start string) bool { return strings.HasPrefix(url, start) })
		if !strings.HasSuffix(url, ".git") {
			n++
		}
		return n
	}
	return slices.MinFunc(slices.Collect(maps.Keys(s.urls)), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a, b))
	})
}

// modules returns the modules of calls.
func (n *namer) modules(calls []call) map[moduleKey]*module {
	all := map[moduleKey]*module{}
	for _, c := range calls {
		r := n.repositories[c.id]
		if r == nil {
			r = &spellings{urls: map[string]bool{}}
			n.repositories[c.id] = r
		}
		r.urls[c.url] = true
		r.hasSecret = r.hasSecret || c.hasSecret
		all[c.module()] = nil
	}
	order := func(a, b moduleKey) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.dir, b.dir), strings.Compare(a.tags, b.tags))
	}
	for _, key := range slices.SortedFunc(maps.Keys(all), order) {
		all[key] = n.module(key)
	}
	return all
}

// module returns a module with its address.
func (n *namer) module(key moduleKey) *module {
	r := n.repositories[key.id]
	m := &module{literal: Mapping{Source: r.best(), Path: key.dir, Tags: key.tags}}
	m.pattern = m.literal
	for _, url := range slices.Sorted(maps.Keys(r.urls)) {
		if strings.TrimSuffix(url, ".git") != strings.TrimSuffix(m.literal.Source, ".git") {
			m.remark("it is also called as %s", url)
		}
	}
	if r.hasSecret {
		m.remark("a call of %s has a password, token or key, which is not carried over: configure it as a credential", m.literal.Source)
	}
	parts := strings.Split(key.id, "/")
	namespace := n.namespace(m, parts[0], parts[1:len(parts)-1])
	repo := parts[len(parts)-1]
	system, name, template := convention(repo)
	if key.dir == "" {
		start, _ := strings.CutSuffix(strings.TrimSuffix(m.literal.Source, ".git"), repo)
		m.pattern.Source = start + template + m.literal.Source[len(start)+len(repo):]
		if template == namePlaceholder { // every repository beside this one would be a module
			m.pattern = Mapping{}
		}
	} else {
		of := system
		system, name, m.pattern.Path, m.pattern.Tags = inMonorepo(key.dir, key.tags)
		system = cmp.Or(system, of)
	}
	m.finish(namespace, word(name, "module"), cmp.Or(system, anySystem))
	if other, isUsed := n.used[m.literal.Address]; isUsed {
		m.pattern = Mapping{}
		m.remark("%s is the address of %s", m.literal.Address, other)
		for i := 2; isUsed; i++ {
			m.literal.Address = fmt.Sprintf("%s/%.58s-%d/%s", namespace, word(name, "module"), i, cmp.Or(system, anySystem))
			_, isUsed = n.used[m.literal.Address]
		}
	}
	n.used[m.literal.Address] = strings.TrimSuffix(m.literal.Source+"//"+m.literal.Path, "//")
	return m
}

func (m *module) remark(format string, args ...any) {
	m.literal.Remarks = append(m.literal.Remarks, fmt.Sprintf(format, args...))
}

// finish sets the addresses, and removes the pattern if it does not lead to the same repository, directory and tags.
func (m *module) finish(namespace, name, system string) {
	m.literal.Address = namespace + "/" + name + "/" + system
	if m.pattern.Source == "" {
		return
	}
	choosing := m.pattern.Source + m.pattern.Tags // see tags.ParseMapping
	m.pattern.Address = namespace + "/" + namePlaceholder + "/" + systemPlaceholder
	if !strings.Contains(choosing, systemPlaceholder) {
		m.pattern.Path = strings.ReplaceAll(m.pattern.Path, systemPlaceholder, system)
		m.pattern.Address = namespace + "/" + namePlaceholder + "/" + system
	}
	fill := strings.NewReplacer(namePlaceholder, name, systemPlaceholder, system).Replace
	if l, p := m.literal, m.pattern; !strings.Contains(choosing, namePlaceholder) ||
		fill(p.Address) != l.Address || fill(p.Source) != l.Source || fill(p.Path) != l.Path || fill(p.Tags) != l.Tags {
		m.pattern = Mapping{}
	}
}

// namespace returns the namespace for the repositories of an organisation, which a forge may divide into groups. It is not a foreign one,
// because modproxy requests mapped namespaces from no public registry.
func (n *namer) namespace(m *module, host string, groups []string) string {
	groups = slices.DeleteFunc(slices.Clone(groups), func(g string) bool {
		return g == "_git" || g == "scm" || g == "v3" // of URLs of Azure DevOps and Bitbucket Data Center
	})
	host, _, _ = strings.Cut(host, ":")
	wanted := word(strings.Join(groups, "-"), word(host, "own"))
	namespace := wanted
	for n.foreign[namespace] {
		namespace = fmt.Sprintf("%.60s-git", namespace)
	}
	if namespace != wanted {
		m.remark("its namespace is not %s, because modules or providers of that namespace come from another registry", wanted)
	}
	return namespace
}

var systemPattern = regexp.MustCompile(`^[0-9a-z]{1,64}$`)

// leads are the beginnings of the names of repositories, before a system or a name.
var leads = []string{"terraform-module-", "terraform-modules-", "tf-module-", "tf-modules-", "terraform-", "tf-"}

// convention reads the name of a repository or directory: terraform-SYSTEM-NAME, as registries want it, tf-SYSTEM-NAME, or one of their
// forms without a system. Otherwise the name is that of the module. template is s with placeholders.
func convention(s string) (system, name, template string) {
	i := slices.IndexFunc(leads, func(lead string) bool { return strings.HasPrefix(strings.ToLower(s), lead) && len(s) > len(lead) })
	if i < 0 {
		return "", s, namePlaceholder
	}
	lead, rest := s[:len(leads[i])], s[len(leads[i]):]
	before, after, _ := strings.Cut(rest, "-")
	if system = strings.ToLower(before); after != "" && !strings.Contains(leads[i], "module") && systemPattern.MatchString(system) {
		return system, after, lead + systemPlaceholder + "-" + namePlaceholder
	}
	return "", rest, lead + namePlaceholder
}

// inMonorepo returns the system and name of a module in a directory of a repository with tags for each module, and patterns for its
// directory and tags.
func inMonorepo(dir, tags string) (system, name, dirTemplate, tagsTemplate string) {
	parts := strings.Split(dir, "/")
	templates := slices.Clone(parts)
	last := len(parts) - 1
	system, name, templates[last] = convention(parts[last])
	if system == "" && last > 0 && systemPattern.MatchString(parts[last-1]) && !slices.Contains(notSystems, parts[last-1]) {
		system, templates[last-1] = parts[last-1], systemPlaceholder
	}
	tagsTemplate = tags
	for i := range parts {
		for _, between := range []string{"/", "-"} {
			if of := strings.Join(parts[i:], between); of == tagName(strings.TrimSuffix(tags, versionPlaceholder)) {
				return system, name, path.Join(templates...), strings.Join(templates[i:], between) + tags[len(of):]
			}
		}
	}
	return system, name, path.Join(templates...), tagsTemplate
}

// notSystems are names of directories that have modules of many systems.
var notSystems = []string{"module", "modules", "terraform", "tf", "src"}

// word returns s as a namespace or name: at most 60 lower-case letters, digits, - and _. If nothing of s remains, it returns instead.
func word(s, instead string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		s = plain
	}
	s = strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(s))
	s = strings.Trim(s, "-_")
	return cmp.Or(strings.Trim(s[:min(len(s), 60)], "-_"), instead)
}
