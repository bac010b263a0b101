package tags

import "github.com/modproxy/modproxy"

// Match returns the version that a tag names for a module, the tags of that version, and the prefixes of all tags.
func Match(m Mapping, a modproxy.Address, tag string) (version string, names, prefixes []string) {
	version = m.version(a, tag)
	return version, m.names(a.At(version)), m.prefixes(a)
}
