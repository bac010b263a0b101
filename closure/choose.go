package closure

import (
	"errors"
	"fmt"

	"github.com/modproxy/modproxy"
)

// Choose returns the version of a list that a client chooses by the version of a call, which may be empty: the newest, and of
// those that are equally new the first (installRegistryModule in internal/initwd/module_install.go of both clients). Its error
// is for people.
func Choose(list []modproxy.Listed, constraint string) (string, error) {
	var c modproxy.Constraint
	if constraint != "" {
		var err error
		if c, err = modproxy.ParseConstraint(constraint); err != nil {
			return "", err
		}
	}
	var best, newest *modproxy.Version
	for i := range list {
		v := &list[i].Version
		if newest == nil || v.Compare(*newest) > 0 {
			newest = v
		}
		if c.Selects(*v) && !(c.IsZero() && v.Prerelease()) && (best == nil || v.Compare(*best) > 0) {
			best = v
		}
	}
	switch {
	case best != nil:
		return best.String(), nil
	case newest == nil:
		return "", errors.New("it has no versions")
	case constraint == "":
		return "", fmt.Errorf("it has pre-releases only, up to %s, which are chosen only if the version says so", newest)
	}
	return "", fmt.Errorf("no version is chosen by %q; the newest is %s", constraint, newest)
}
