package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

const (
	maxWarnings = 4 // number of reasons that warnings name
	maxNamed    = 8 // number of versions that a warning names
)

// denials contains the denied versions of a provider, by verdict. Clients print warnings about providers.
type denials map[Verdict][]modproxy.Version

func (d denials) add(v modproxy.Version, verdict Verdict) { d[verdict] = append(d[verdict], v) }

// warnings returns a warning for each reason. The reason of the newest version is first. refusal returns the refusal of
// a version. listed is true if denied versions are listed.
func (d denials) warnings(m modproxy.Address, listed bool, refusal func(modproxy.Version, Verdict) *Refusal) (texts []string) {
	verdicts := make([]Verdict, 0, len(d))
	for verdict, versions := range d {
		slices.SortFunc(versions, func(a, b modproxy.Version) int { return b.Compare(a) })
		verdicts = append(verdicts, verdict)
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int { return d[b][0].Compare(d[a][0]) })
	are := map[bool]string{false: "not listed", true: "listed, but denied"}[listed]
	for i, verdict := range verdicts {
		if i == maxWarnings {
			return append(texts, fmt.Sprintf("%s: versions are %s for %d more reasons", m, are, len(verdicts)-i))
		}
		all := d[verdict]
		var names []string
		for _, v := range all[:min(len(all), maxNamed)] {
			names = append(names, v.String())
		}
		text := strings.Join(names, ", ")
		if more := len(all) - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		is := "is "
		if len(all) > 1 {
			is = "are "
		}
		texts = append(texts, fmt.Sprintf("%s %s %s%s: %v", m, text, is, are, refusal(all[0], verdict)))
	}
	return texts
}
