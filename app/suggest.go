package app

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/policy"
)

// A Served is a version that was served, with the conditions on which the rules in force allow it, if there are any.
type Served struct {
	modproxy.ModuleVersion
	Conditions []policy.Conditions
}

// Suggest returns a file for policy.files that allows the modules and providers that were served and no others, on the same
// conditions; with bounds, from the lowest of the versions to the highest. If the versions of a module have different conditions,
// each has rules of its own. The error of Suggest is about one that no rule can be about.
func Suggest(served []Served, bounds bool) ([]byte, error) {
	byModule := map[modproxy.Module][]modproxy.Version{}              // by folded module
	conditions := map[modproxy.Module]map[string][]modproxy.Version{} // by folded module and the lines of a rule
	for _, v := range served {
		version, err := modproxy.ParseVersion(v.Version)
		if err != nil {
			return nil, err
		}
		m := v.Module.Folded()
		byModule[m] = append(byModule[m], version)
		if conditions[m] == nil {
			conditions[m] = map[string][]modproxy.Version{}
		}
		lines := conditionLines(v.Conditions)
		conditions[m][lines] = append(conditions[m][lines], version)
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
		groups := conditions[m]
		m.Host = hostname.Display(m.Host) // which a rule has to have
		if _, err := policy.ParsePattern(m.String()); err != nil {
			return nil, err
		}
		if of := m.Host + "/" + m.Namespace; of != group {
			fmt.Fprintf(&b, "  # %s\n", of)
			group = of
		}
		for _, rules := range slices.Sorted(maps.Keys(groups)) {
			constraints := []string{""}
			switch {
			case len(groups) > 1: // a span may have versions with other conditions in it
				constraints = exactly(groups[rules])
			case bounds:
				constraints = spans(groups[rules])
			}
			for _, c := range constraints {
				for _, lines := range strings.Split(rules, "\x00") {
					fmt.Fprintf(&b, "  - allow: %s\n", m)
					if c != "" {
						fmt.Fprintf(&b, "    versions: %q\n", c)
					}
					b.WriteString(lines)
				}
			}
		}
	}
	return b.Bytes(), nil
}

// conditionLines returns the lines for conditions, those of different rules with a NUL between.
func conditionLines(all []policy.Conditions) string {
	var rules []string
	for _, c := range all {
		var b strings.Builder
		if len(c.Groups) > 0 {
			var quoted []string
			for _, g := range c.Groups {
				quoted = append(quoted, strconv.Quote(g))
			}
			fmt.Fprintf(&b, "    groups: [%s]\n", strings.Join(quoted, ", "))
		}
		if c.MinAge > 0 {
			fmt.Fprintf(&b, "    min_age: %s\n", ageText(c.MinAge))
		}
		if c.Approval {
			b.WriteString("    approval: required\n")
		}
		rules = append(rules, b.String())
	}
	slices.Sort(rules)
	return strings.Join(rules, "\x00")
}

// ageText returns a duration as the configuration has it, in days if it can be.
func ageText(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// exactly returns a constraint for each version.
func exactly(versions []modproxy.Version) (list []string) {
	slices.SortFunc(versions, modproxy.Version.Compare)
	for _, v := range versions {
		name, _, _ := strings.Cut(v.String(), "+")
		list = append(list, name)
	}
	return slices.Compact(list)
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
