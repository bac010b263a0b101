package app

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/policy"
)

// Suggest returns a file for policy.files that allows the modules and providers of versions and no others, one rule each; with
// bounds, from the lowest of the versions to the highest. Its error is about one that no rule can be about.
func Suggest(versions []modproxy.ModuleVersion, bounds bool) ([]byte, error) {
	byModule := map[modproxy.Module][]modproxy.Version{} // by folded module
	for _, v := range versions {
		version, err := modproxy.ParseVersion(v.Version)
		if err != nil {
			return nil, err
		}
		byModule[v.Module.Folded()] = append(byModule[v.Module.Folded()], version)
	}
	modules := make([]modproxy.Module, 0, len(byModule))
	for m := range byModule {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b modproxy.Module) int { return strings.Compare(a.String(), b.String()) })
	none := ""
	if len(modules) == 0 {
		none = " []"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Allows what modproxy has served. To have all others refused:\n"+
		"#   policy: {default: deny, files: [this file]}\nrules:%s\n", none)
	group := ""
	for _, m := range modules {
		constraints := []string{""}
		if bounds {
			constraints = spans(byModule[m])
		}
		m.Host = hostname.Display(m.Host) // which a rule has to have
		if _, err := policy.ParsePattern(m.String()); err != nil {
			return nil, err
		}
		if of := m.Host + "/" + m.Namespace; of != group {
			fmt.Fprintf(&b, "  # %s\n", of)
			group = of
		}
		for _, c := range constraints {
			fmt.Fprintf(&b, "  - allow: %s\n", m)
			if c != "" {
				fmt.Fprintf(&b, "    versions: %q\n", c)
			}
		}
	}
	return b.Bytes(), nil
}

// spans returns constraints that select versions: one from the lowest to the highest, and one for each pre-release, which
// nothing else selects.
func spans(versions []modproxy.Version) (list []string) {
	slices.SortFunc(versions, modproxy.Version.Compare)
	name := func(v modproxy.Version) string {
		name, _, _ := strings.Cut(v.String(), "+")
		return name
	}
	var released []string
	for _, v := range versions {
		if v.Prerelease() {
			list = append(list, name(v))
		} else {
			released = append(released, name(v))
		}
	}
	list = slices.Compact(list)
	switch released = slices.Compact(released); len(released) {
	case 0:
	case 1:
		list = slices.Insert(list, 0, released[0])
	default:
		list = slices.Insert(list, 0, fmt.Sprintf(">= %s, <= %s", released[0], released[len(released)-1]))
	}
	return list
}
