//go:build linux

package hostile_test

import (
	"net/netip"
	"strings"
	"sync"

	"github.com/modproxy/modproxy/test/rig"

	"golang.org/x/net/dns/dnsmessage"
)

// names is the name server.
type names struct {
	mu    sync.Mutex
	fixed map[string][]netip.Addr
	// turns has names whose address changes with each lookup; the last address stays.
	turns map[string][]netip.Addr
	asked map[string]int
}

func newNames() *names {
	return &names{fixed: map[string][]netip.Addr{}, turns: map[string][]netip.Addr{}, asked: map[string]int{}}
}

func addresses(list []string) []netip.Addr {
	var all []netip.Addr
	for _, s := range list {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

// set sets the addresses of a name.
func (n *names) set(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fixed[name] = addresses(to)
}

// rebind sets the addresses of a name for successive lookups.
func (n *names) rebind(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns[name] = addresses(to)
}

// lookUp returns the addresses of a name; ok is false if the name does not exist. All names below evil.test belong to strangers.
func (n *names) lookUp(name string, six bool) (found []netip.Addr, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = strings.ToLower(name)
	all, ok := n.fixed[name]
	if turns := n.turns[name]; len(turns) > 0 {
		all, ok = turns[:1], true
		if six == turns[0].Is6() && len(turns) > 1 {
			n.turns[name] = turns[1:]
		}
	}
	n.asked[name]++
	if !ok && strings.HasSuffix("."+name, ".evil.test") {
		all, ok = addresses([]string{strangersAddress}), true
	}
	for _, ip := range all {
		if ip.Is6() == six {
			found = append(found, ip)
		}
	}
	return found, ok
}

// serve answers lookups over UDP.
func (n *names) serve() error {
	_, err := rig.ServeNames(nameServer, func(name string, six bool) ([]netip.Addr, dnsmessage.RCode) {
		found, ok := n.lookUp(name, six)
		if !ok {
			return nil, dnsmessage.RCodeNameError
		}
		return found, dnsmessage.RCodeSuccess
	})
	return err
}
