package app

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
	"github.com/modproxy/modproxy/policy"
)

// A Served is a version that was served, with the conditions on which the rules in force allow it, if there are any.
type Served struct {
	modproxy.Ref
	Conditions []policy.Conditions
	Exact      bool // a rule about all versions of the module would allow more than the rules in force
}

// Suggest returns a file for policy.files that allows the modules and providers that were served and no others, on the same
// conditions; with bounds, from the lowest of the versions to the highest. If the versions of a module have different conditions,
// or one of them is Exact, each has rules of its own. What lock files allow, rules about the same lock files allow. The error of
// Suggest is about one that no rule can be about.
func Suggest(served []Served, bounds bool) ([]byte, error) {
	conditions := map[modproxy.Address]map[string][]modproxy.Version{} // by folded module and the lines of a rule
	exact := map[modproxy.Address]bool{}                               // by folded module
	locks := map[string]bool{}                                         // rules about lock files
	for _, v := range served {
		version, err := modproxy.ParseVersion(v.Version)
		if err != nil {
			return nil, err
		}
		var others []policy.Conditions
		for _, c := range v.Conditions {
			if len(c.LockFiles) == 0 {
				others = append(others, c)
				continue
			}
			locks["  - allow_locked: "+listText(c.LockFiles)+"\n"+conditionLines([]policy.Conditions{c})] = true
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
	none := ""
	if len(modules)+len(locks) == 0 {
		none = " []"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Allows what modproxy has served. To have all others refused:\n"+
		"#   policy: {default: deny, files: [this file]}\nrules:%s\n", none)
	group := ""
	for _, m := range modules {
		groups, each := conditions[m], exact[m]
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
			case each, len(groups) > 1: // a span may have versions with other conditions in it
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
	for i, rule := range slices.Sorted(maps.Keys(locks)) {
		if i == 0 {
			b.WriteString("  # what lock files list\n")
		}
		b.WriteString(rule)
	}
	return b.Bytes(), nil
}

// conditionLines returns the lines for conditions, those of different rules with a NUL between.
func conditionLines(all []policy.Conditions) string {
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

// listText returns a list of texts as the configuration has it.
func listText(list []string) string {
	quoted := make([]string, len(list))
	for i, text := range list {
		quoted[i] = strconv.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
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
	slices.SortFunc(versions, inOrder)
	for _, v := range versions {
		list = append(list, v.String())
	}
	return slices.Compact(list)
}

// inOrder orders the builds of one version by their texts.
func inOrder(a, b modproxy.Version) int {
	return cmp.Or(a.Compare(b), strings.Compare(a.String(), b.String()))
}

// spans returns constraints that select versions: one from the lowest to the highest, and one for each pre-release, which
// nothing else selects.
func spans(versions []modproxy.Version) (list []string) {
	var released, pre []modproxy.Version
	for _, v := range versions {
		if v.Prerelease() {
			pre = append(pre, v)
		} else {
			released = append(released, v)
		}
	}
	list = exactly(released)
	if len(released) > 0 && released[0].Compare(released[len(released)-1]) < 0 {
		list = []string{fmt.Sprintf(">= %s, <= %s", number(released[0]), number(released[len(released)-1]))}
	}
	return append(list, exactly(pre)...)
}

// number returns v without its build metadata, which makes no difference in a span.
func number(v modproxy.Version) string {
	name, _, _ := strings.Cut(v.String(), "+")
	return name
}
