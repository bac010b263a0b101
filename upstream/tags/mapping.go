package tags

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/fetch/oci"
)

// Mapping is one line of the configuration: the modules at an address, or of a pattern, and where their tags are.
type Mapping struct {
	address  modproxy.Address // without a host; Name and System may be placeholders
	location string           // of the repository, with placeholders
	path     string           // the directory in the repository, with placeholders; empty for its root
	tags     []string         // patterns
	isOCI    bool             // the repository is at an OCI registry, and not of git
}

const (
	namePlaceholder    = "{name}"
	systemPlaceholder  = "{system}"
	versionPlaceholder = "{version}"
)

var (
	// placeholderValue matches the values of placeholders. Forges fold case: with capitals, one repository would be many modules.
	placeholderValue = regexp.MustCompile(`^[0-9a-z_-]{1,64}$`)
	// badTag matches what no name of a tag contains (https://git-scm.com/docs/git-check-ref-format).
	badTag = regexp.MustCompile(`[\x00-\x20\x7f~^:?*\[\\{}]|\.\.|//|^[/-]|/$`)
)

// ParseMapping reads a mapping. Its error names the part that is wrong.
func ParseMapping(address, source, path, tags string) (Mapping, error) {
	m := Mapping{location: source, path: path, tags: []string{"v" + versionPlaceholder, versionPlaceholder}}
	if tags != "" {
		m.tags = []string{tags}
	}
	for _, part := range []struct {
		name  string
		check func() error
	}{
		{"address", func() error { return m.parseAddress(address) }},
		{"source", m.checkSource}, {"path", m.checkPath}, {"tags", m.checkTags}, {"address", m.checkPlaceholders},
	} {
		if err := part.check(); err != nil {
			return Mapping{}, fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return m, nil
}

func (m *Mapping) parseAddress(text string) error {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return errors.New("want namespace/name/system, without a host; name may be {name}, and system {system}")
	}
	m.address = modproxy.Address{Namespace: parts[0], Name: parts[1], System: parts[2]}
	return m.Sample("x").Check()
}

// Sample returns a module that m matches, without a host. value is in the place of placeholders.
func (m Mapping) Sample(value string) modproxy.Address {
	a := m.address
	if a.Name == namePlaceholder {
		a.Name = value
	}
	if a.System == systemPlaceholder {
		a.System = value
	}
	return a
}

// samples are two modules that a pattern matches, with different values for its placeholders.
func (m *Mapping) samples() [2]modproxy.Address {
	return [2]modproxy.Address{m.Sample("a0"), m.Sample("z9")}
}

func (m *Mapping) checkSource() error {
	if strings.ContainsAny(m.location, "?#") {
		return errors.New("must not have a query or fragment: tags choose the revision")
	}
	var origins [2]string
	for i, sample := range m.samples() {
		l, err := modproxy.ParseLocation(fill(m.location, sample), &url.URL{})
		if err != nil {
			return err
		}
		u, err := url.Parse(l.URL)
		switch _, hasPassword := u.User.Password(); {
		case err != nil:
			return errors.New("not a URL")
		case l.Getter != "git" && l.Getter != "oci":
			return fmt.Errorf("%w; want a repository with tags, such as git::https://git.example.com/acme/terraform-aws-vpc.git "+
				"or oci://registry.example.com/acme/vpc", withoutTags(l.Getter))
		case l.Subdir != "":
			return errors.New("must not have a subdirectory: use path")
		case hasPassword:
			return errors.New("must not have a password: configure credentials")
		case strings.ContainsAny(u.Path, "{}"):
			return errors.New("a brace is not part of {name} or {system}")
		case l.Getter == "oci" && (u.Scheme != "oci" || u.User != nil || !oci.IsRepository(strings.TrimPrefix(u.Path, "/"))):
			return errors.New("want oci://host/repository, in lower case and without a user")
		}
		if m.isOCI = l.Getter == "oci"; !m.isOCI {
			if err := git.CheckURL(l.URL); err != nil {
				return err
			}
		}
		origins[i] = u.Scheme + "://" + u.User.String() + "@" + u.Host
	}
	if origins[0] != origins[1] {
		return errors.New("{name} and {system} may only be in the path of the URL")
	}
	return nil
}

// withoutTags returns the reason why a location of a kind is not the source of a mapping.
func withoutTags(getter string) error {
	switch getter {
	case "http", "https":
		return errors.New("an archive has no tags")
	case "file":
		return errors.New("modproxy never reads local files")
	}
	return fetch.Unsupported(getter)
}

func (m *Mapping) checkPath() error {
	for _, sample := range m.samples() {
		filled := fill(m.path, sample)
		if filled == "" {
			continue
		}
		l, err := modproxy.ParseLocation("git::https://x/x//"+filled, &url.URL{})
		if err != nil || l.Subdir != filled || path.IsAbs(filled) || strings.ContainsAny(filled, "*?[]{}%") {
			return errors.New("want a directory in the repository, such as modules/vpc, without ., .. and patterns")
		}
	}
	return nil
}

func (m *Mapping) checkTags() error {
	for _, pattern := range m.tags {
		if strings.Count(pattern, versionPlaceholder) != 1 {
			return errors.New("want {version} once, such as v{version}")
		}
		for _, sample := range m.samples() {
			before, after := around(fill(pattern, sample))
			name := before + "1.0.0" + after
			if badTag.MatchString(name) {
				return errors.New("no tag can have such a name")
			}
			if m.isOCI && !oci.IsTag(name) {
				return errors.New("no tag of an OCI repository can have such a name: want letters, digits, _, . and -")
			}
		}
	}
	return nil
}

// checkPlaceholders returns an error for a placeholder in the address that chooses neither a repository nor tags. Every value
// of it would be another module with the same versions.
func (m *Mapping) checkPlaceholders() error {
	for _, p := range []struct{ in, placeholder string }{{m.address.Name, namePlaceholder}, {m.address.System, systemPlaceholder}} {
		if p.in == p.placeholder && !strings.Contains(m.location+strings.Join(m.tags, " "), p.placeholder) {
			return fmt.Errorf("%s must be in source or tags, too; otherwise, write one entry for each module", p.placeholder)
		}
	}
	return nil
}

// fill replaces the placeholders for the name and system in s.
func fill(s string, a modproxy.Address) string {
	return strings.NewReplacer(namePlaceholder, a.Name, systemPlaceholder, a.System).Replace(s)
}

// around splits a pattern of tags at its version.
func around(pattern string) (before, after string) {
	before, after, _ = strings.Cut(pattern, versionPlaceholder)
	return before, after
}

// Namespace returns the namespace of the modules.
func (m Mapping) Namespace() string { return m.address.Namespace }

// Exact returns the address of the only module, without a host. ok is false for a pattern.
func (m Mapping) Exact() (address modproxy.Address, ok bool) {
	return m.address, m.address.Name != namePlaceholder && m.address.System != systemPlaceholder
}

// String returns the address without a host, with placeholders.
func (m Mapping) String() string {
	return m.address.Namespace + "/" + m.address.Name + "/" + m.address.System
}

// Describe returns where the modules are, without asking for tags. It has placeholders, and neither versions nor tags.
func (m Mapping) Describe() *Inspection { return m.describe(m.address) }

func (m Mapping) describe(a modproxy.Address) *Inspection {
	i := &Inspection{Path: fill(m.path, a)}
	for _, pattern := range m.tags {
		i.Forms = append(i.Forms, fill(pattern, a))
	}
	if l, err := modproxy.ParseLocation(fill(m.location, a), &url.URL{}); err == nil {
		if u, err := url.Parse(l.URL); err == nil {
			i.Repository = strings.NewReplacer("%7B", "{", "%7D", "}").Replace(egress.Redact(u))
		}
	}
	return i
}

// Origin returns the scheme, the user and the host from which the repositories are downloaded: those of their mirror, if they have one. OCI
// registries are asked over https.
func (m Mapping) Origin(mirrors fetch.Mirrors) *url.URL {
	l, err := modproxy.ParseLocation(fill(m.location, m.samples()[0]), &url.URL{})
	if err != nil {
		return &url.URL{}
	}
	if at, mirrored, err := mirrors.Replace(l); mirrored && err == nil {
		l = at
	}
	u, err := url.Parse(l.URL)
	if err != nil {
		return &url.URL{}
	}
	if m.isOCI {
		u.Scheme = "https"
	}
	return &url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}
}

// matches reports whether a is one of the modules. It does not compare the host.
func (m Mapping) matches(a modproxy.Address) bool {
	return a.IsModule() && m.address.Namespace == a.Namespace &&
		matchesPart(m.address.Name, namePlaceholder, a.Name) && matchesPart(m.address.System, systemPlaceholder, a.System)
}

func matchesPart(part, placeholder, value string) bool {
	return part == value || part == placeholder && placeholderValue.MatchString(value)
}

// hides reports whether m matches every module that n matches.
func (m Mapping) hides(n Mapping) bool {
	for _, sample := range n.samples() {
		if !m.matches(sample) {
			return false
		}
	}
	return true
}

// version returns the version that a tag names for a module, or an empty string. Its spelling is canonical.
func (m Mapping) version(a modproxy.Address, tag string) string {
	for _, text := range m.texts(a, tag) {
		if canonical, err := modproxy.CanonicalVersion(text); err == nil && canonical == text {
			return text
		}
	}
	return ""
}

// texts returns the parts of a tag that are in the place of {version}, one for each pattern that the tag has the form of.
func (m Mapping) texts(a modproxy.Address, tag string) (all []string) {
	for _, pattern := range m.tags {
		before, after := around(fill(pattern, a))
		text, hasPrefix := strings.CutPrefix(tag, before)
		text, hasSuffix := strings.CutSuffix(text, after)
		if hasPrefix && hasSuffix {
			all = append(all, text)
		}
	}
	return all
}

// prefixes returns the beginnings of all tags of a module.
func (m Mapping) prefixes(a modproxy.Address) (all []string) {
	for _, pattern := range m.tags {
		before, _ := around(fill(pattern, a))
		all = append(all, before)
	}
	return all
}

// names returns the tags that name a version of a module.
func (m Mapping) names(v modproxy.Ref) (all []string) {
	for _, pattern := range m.tags {
		before, after := around(fill(pattern, v.Address))
		all = append(all, before+v.Version+after)
	}
	return all
}
