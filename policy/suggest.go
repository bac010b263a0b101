package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
)

// A ServedVersion is a version that clients have received.
type ServedVersion struct {
	modproxy.Ref
	Conditions []Conditions // of the rules in force that allow it
	Exact      bool         // a rule about all versions of the module would allow more than the rules in force
}

// Suggest returns the text of a file for the key policy.files. Its rules allow the modules and providers of served and no others, on
// the same conditions. With bounds, they allow only versions from the lowest served version of a module to the highest.
//
// If the versions of a module have different conditions, or one of them is Exact, each version has rules of its own. Rules about lock
// files allow the versions that lock files allowed. The error is about an address that no rule can have.
func Suggest(served []ServedVersion, bounds bool) ([]byte, error) {
	conditions := map[modproxy.Address]map[string][]modproxy.Version{} // by folded module and the lines of a rule
	exact := map[modproxy.Address]bool{}                               // by folded module
	locks := map[string]bool{}                                         // rules about lock files
	for _, v := range served {
		version, err := modproxy.ParseVersion(v.Version)
		if err != nil {
			return nil, err
		}
		var others []Conditions
		for _, c := range v.Conditions {
			if len(c.LockFiles) == 0 {
				others = append(others, c)
				continue
			}
			locks["  - allow_locked: "+listText(c.LockFiles)+"\n"+conditionLines([]Conditions{c})] = true
		}
		m := v.Address.Folded()
		locked := len(others) < len(v.Conditions)
		exact[m] = exact[m] || v.Exact || locked
		if locked && len(others) == 0 {
			continue
		}
		if conditions[m] == nil {
			conditions[m] = map[string][]modproxy.Version{}
		}
		lines := conditionLines(others)
		conditions[m][lines] = append(conditions[m][lines], version)
	}
	modules := slices.SortedFunc(maps.Keys(conditions), func(a, b modproxy.Address) int { return strings.Compare(a.String(), b.String()) })
	empty := ""
	if len(modules)+len(locks) == 0 {
		empty = " []"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Allows the versions that modproxy has served. To refuse all others:\n"+
		"#   policy: {default: deny, files: [this file]}\nrules:%s\n", empty)
	group := ""
	for _, m := range modules {
		groups, each := conditions[m], exact[m]
		m.Host = hostname.Display(m.Host) // rules have the displayed form
		if _, err := ParsePattern(m.String()); err != nil {
			return nil, err
		}
		if of := m.Host + "/" + m.Namespace; of != group {
			fmt.Fprintf(&b, "  # %s\n", of)
			group = of
		}
		for _, rules := range slices.Sorted(maps.Keys(groups)) {
			constraints := []string{""}
			switch {
			case each, len(groups) > 1: // a range can contain versions with other conditions
				constraints = exactConstraints(groups[rules])
			case bounds:
				constraints = rangeConstraints(groups[rules])
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
	for i, rule := range slices.Sorted(maps.Keys(locks)) {
		if i == 0 {
			b.WriteString("  # versions in lock files\n")
		}
		b.WriteString(rule)
	}
	return b.Bytes(), nil
}

// conditionLines returns the lines of a rule for each of the conditions, with a NUL between rules.
func conditionLines(all []Conditions) string {
	var rules []string
	for _, c := range all {
		var b strings.Builder
		if len(c.Groups) > 0 {
			fmt.Fprintf(&b, "    groups: %s\n", listText(c.Groups))
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

// listText returns a list of texts in YAML.
func listText(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// ageText returns a duration as the configuration reads it, in days if possible.
func ageText(d time.Duration) string {
	if day := 24 * time.Hour; d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// exactConstraints returns a constraint for each version.
func exactConstraints(versions []modproxy.Version) (list []string) {
	slices.SortFunc(versions, compareBuilds)
	for _, v := range versions {
		list = append(list, v.String())
	}
	return slices.Compact(list)
}

// compareBuilds orders versions, and the builds of one version by their texts.
func compareBuilds(a, b modproxy.Version) int {
	return cmp.Or(a.Compare(b), strings.Compare(a.String(), b.String()))
}

// rangeConstraints returns a constraint from the lowest to the highest version, and one for each pre-release, because ranges do not
// select pre-releases.
func rangeConstraints(versions []modproxy.Version) (list []string) {
	var released, pre []modproxy.Version
	for _, v := range versions {
		if v.Prerelease() {
			pre = append(pre, v)
		} else {
			released = append(released, v)
		}
	}
	list = exactConstraints(released)
	if len(released) > 0 && released[0].Compare(released[len(released)-1]) < 0 {
		list = []string{fmt.Sprintf(">= %s, <= %s", withoutBuild(released[0]), withoutBuild(released[len(released)-1]))}
	}
	return append(list, exactConstraints(pre)...)
}

// withoutBuild returns v without its build metadata, which makes no difference in a range.
func withoutBuild(v modproxy.Version) string {
	name, _, _ := strings.Cut(v.String(), "+")
	return name
}
