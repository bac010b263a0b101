package app

import (
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
)

// routes implements [closure.Routes].
type routes struct{ *config.Config }

// Upstream returns the module at the upstream that this proxy asks for it.
func (r routes) Upstream(m modproxy.Address) (modproxy.Address, error) {
	if slices.Contains(ownHosts(r.Config), m.Host) {
		own := m.Host
		upstreams := upstreamsOf(r.Config)
		if m.Host = upstreams.ByNamespace(m.Namespace); m.Host == "" {
			return m, fmt.Errorf("%s is this proxy, which has no upstream for namespace %s", own, m.Namespace)
		}
		return m, nil
	}
	if !r.HasUpstream(m.Host) {
		return m, fmt.Errorf("%s is not among upstreams", m.Host)
	}
	return m, nil
}
