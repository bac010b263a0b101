package closure

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// ChooseModule returns the version that a client installs for a call with a version constraint, which may be empty: the newest
// version that matches, and the first of several equal ones (installRegistryModule in internal/initwd/module_install.go of both
// clients). The error is a message for users.
func ChooseModule(client tfconfig.Client, list []modproxy.Listed, constraint string) (string, error) {
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
		if v.Prerelease() && !namesPrerelease(client, constraint, *v) || !terms.Selects(*v) {
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
		return "", fmt.Errorf("it has only pre-releases, up to %s: a version constraint must name a pre-release to choose it", newest)
	}
	return "", fmt.Errorf("no version matches %q; the newest is %s", constraint, newest)
}

// namesPrerelease reports whether a constraint names exactly this pre-release, as the client parses it. For this check the clients
// use another library than for the rest (github.com/apparentlymart/go-versions), which accepts no space after the operator.
// OpenTofu drops a leading v.
func namesPrerelease(client tfconfig.Client, constraint string, pre modproxy.Version) bool {
	name := strings.TrimPrefix(strings.TrimSpace(constraint), "=")
	if client == tfconfig.OpenTofu {
		name = strings.TrimPrefix(name, "v")
	}
	numbers, rest, _ := strings.Cut(name, "-")
	named, err := modproxy.ParseVersion(numbers)
	return err == nil && named.String()+"-"+rest == pre.String() && strings.Count(numbers, ".") < 3 && !strings.HasPrefix(numbers, "v")
}
