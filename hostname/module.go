package hostname

import (
	"fmt"
	"strings"

	"github.com/modproxy/modproxy"
)

// ParseModule reads a module address as people write it. Without a hostname it is at host, unless that is
// empty. The error is [modproxy.ErrInvalid].
func ParseModule(s, host string) (m modproxy.Module, err error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 && host != "" {
		parts = append([]string{host}, parts...)
	}
	if len(parts) != 4 {
		return m, fmt.Errorf("%w: %.200q is no module address: want registry.example.com/namespace/name/system", modproxy.ErrInvalid, s)
	}
	m = modproxy.Module{Namespace: parts[1], Name: parts[2], System: parts[3]}
	if m.Host, err = Parse(Display(parts[0])); err != nil {
		return modproxy.Module{}, err
	}
	return m, m.Check()
}
