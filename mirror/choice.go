package mirror

import (
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Choice chooses among the versions that a constraint selects. The zero Choice is the one version that clients choose. Otherwise a
// version is chosen if it meets all fields that are set. Without a constraint, pre-releases are chosen only with All.
type Choice struct {
	All    bool      `json:"all,omitempty"`    // every version, unless Newest or Since leaves it out
	Newest int       `json:"newest,omitempty"` // only so many of the newest versions; zero: no limit
	Since  time.Time `json:"since,omitzero"`   // only versions that were first listed at this time or later
}

// of returns the chosen versions of a module, newest first. list has the versions of the module, c is the constraint, and firstSeen
// has the first-seen times if choice.Since is set.
func (choice Choice) of(
	module modproxy.Address, list *modproxy.Versions, c modproxy.Constraint, firstSeen modproxy.FirstSeen,
) (chosen []modproxy.Version, err error) {
	for _, l := range list.List {
		if c.Selects(l.Version) {
			chosen = append(chosen, l.Version)
		}
	}
	if len(chosen) == 0 {
		_, err := closure.ChooseModule(tfconfig.Terraform, list.List, c.String())
		return nil, fmt.Errorf("%s: %w", module, err)
	}
	if releases := slices.DeleteFunc(slices.Clone(chosen), modproxy.Version.Prerelease); c.IsZero() && !choice.All && len(releases) > 0 {
		chosen = releases
	}
	// Clients choose the first of several builds of a version, so the order must be stable.
	slices.SortStableFunc(chosen, func(a, b modproxy.Version) int { return b.Compare(a) })
	if !choice.Since.IsZero() {
		isDated := false
		chosen = slices.DeleteFunc(chosen, func(v modproxy.Version) bool {
			since := firstSeen.Since(v.String())
			isDated = isDated || !since.IsZero()
			return since.Before(choice.Since)
		})
		if !isDated {
			return nil, fmt.Errorf("%w: the first-seen times of the versions of %s are not known: its registry gives no dates",
				modproxy.ErrNotFound, module)
		}
	}
	most := len(chosen)
	switch {
	case choice.Newest > 0:
		most = min(most, choice.Newest)
	case !choice.All && choice.Since.IsZero():
		most = 1
	}
	return chosen[:most], nil
}
