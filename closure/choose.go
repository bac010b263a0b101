package closure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
)

// Choose returns the version of a list that c chooses by the version of a call, which may be empty: the newest, and of those
// that are equally new the first (installRegistryModule in internal/initwd/module_install.go of both). Its error is for
// people.
func (c Client) Choose(list []modproxy.Listed, constraint string) (string, error) {
	var terms modproxy.Constraint
	if constraint != "" {
		var err error
		if terms, err = modproxy.ParseConstraint(constraint); err != nil {
			return "", err
		}
	}
	var best, newest *modproxy.Version
	for i := range list {
		v := &list[i].Version
		if newest == nil || v.Compare(*newest) > 0 {
			newest = v
		}
		if v.Prerelease() && !c.names(constraint, *v) || !terms.Selects(*v) {
			continue
		}
		if best == nil || v.Compare(*best) > 0 {
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

// names reports whether a constraint names a pre-release in the way in which c knows it. The clients have another library for
// that than for the rest (github.com/apparentlymart/go-versions), which takes no blank behind the sign. OpenTofu leaves out
// a v.
func (c Client) names(constraint string, pre modproxy.Version) bool {
	name := strings.TrimPrefix(strings.TrimSpace(constraint), "=")
	if c == OpenTofu {
		name = strings.TrimPrefix(name, "v")
	}
	numbers, rest, _ := strings.Cut(name, "-")
	named, err := modproxy.ParseVersion(numbers)
	return err == nil && named.String()+"-"+rest == pre.String() && strings.Count(numbers, ".") < 3 && !strings.HasPrefix(numbers, "v")
}
