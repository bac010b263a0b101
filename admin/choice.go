package admin

import (
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// Choice says which of the versions that a constraint selects are wanted. The zero Choice is the one that clients choose.
type Choice struct {
	All    bool      `json:"all,omitempty"`
	Newest int       `json:"newest,omitempty"` // so many, unless zero
	Since  time.Time `json:"since,omitzero"`   // only what is listed since then
}

// of returns those of the listed versions of a module that are wanted, the newest first.
func (choice Choice) of(
	module modproxy.Address, list *modproxy.Versions, c modproxy.Constraint, sight modproxy.Sight,
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
	// Of those that are the same, clients choose the first.
	slices.SortStableFunc(chosen, func(a, b modproxy.Version) int { return b.Compare(a) })
	if !choice.Since.IsZero() {
		dated := false
		chosen = slices.DeleteFunc(chosen, func(v modproxy.Version) bool {
			since := sight.Since(v.String())
			dated = dated || !since.IsZero()
			return since.Before(choice.Since)
		})
		if !dated {
			return nil, fmt.Errorf("%w: since when the versions of %s are listed is not known: its registry gives no dates", modproxy.ErrNotFound, module)
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
