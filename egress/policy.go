package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// policy decides where connections may go.
type policy struct {
	ports  []uint16
	names  map[string][]uint16 // excepted hostnames and their ports
	ranges []exceptedRange
	own    sync.Map // the netip.AddrPort of each listener of this process
}

// exceptedRange is an excepted address or CIDR. Port 0 is every port.
type exceptedRange struct {
	prefix netip.Prefix
	port   uint16
}

func newPolicy(cfg Config) (*policy, error) {
	p := &policy{ports: []uint16{443}, names: map[string][]uint16{}}
	for _, addr := range cfg.Listening {
		p.own.Store(addr, nil)
	}
	for _, port := range cfg.Ports {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("egress: port %d: want 1 to 65535", port)
		}
		p.ports = append(p.ports, uint16(port))
	}
	for _, s := range cfg.Allow {
		if err := p.except(s); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// except adds one entry of [Config.Allow].
func (p *policy) except(s string) error {
	wrong := fmt.Errorf("egress: allow: %.80q: want a hostname, an address or a CIDR, the first two with or without a port", s)
	if strings.Contains(s, "/") {
		prefix, err := netip.ParsePrefix(s)
		if err != nil || prefix.Addr().Is4In6() {
			return wrong
		}
		p.ranges = append(p.ranges, exceptedRange{prefix: prefix.Masked()})
		return nil
	}
	t, err := parseHost(s)
	if err != nil {
		if t, err = parseHostport(s); err != nil {
			return wrong
		}
	}
	if t.ip.IsValid() {
		p.ranges = append(p.ranges, exceptedRange{netip.PrefixFrom(t.ip, t.ip.BitLen()), t.port})
		return nil
	}
	p.names[t.host] = append(p.names[t.host], t.port)
	return nil
}

func (p *policy) exceptsName(t target) bool {
	ports := p.names[t.host]
	return slices.Contains(ports, 0) || slices.Contains(ports, t.port)
}

// exceptsAddr reports whether ip, or any address if it is not valid, is excepted.
func (p *policy) exceptsAddr(ip netip.Addr, port uint16) bool {
	return slices.ContainsFunc(p.ranges, func(r exceptedRange) bool {
		return (!ip.IsValid() || r.prefix.Contains(ip)) && (r.port == 0 || r.port == port)
	})
}

// check returns an error if t is refused whatever t.host resolves to.
func (p *policy) check(t target) error {
	switch {
	case t.ip.IsValid():
		return p.admit(t, t.ip)
	case p.exceptsName(t), p.exceptsAddr(netip.Addr{}, t.port):
		return nil
	}
	return p.ordinary(t)
}

// admit returns an error unless a connection for t may be made to ip.
func (p *policy) admit(t target, ip netip.Addr) error {
	ip = ip.Unmap()
	where := t.hostport()
	if !t.ip.IsValid() {
		where = fmt.Sprintf("%s, for %s,", ip, where)
	}
	switch {
	case p.isOwn(netip.AddrPortFrom(ip, t.port)):
		return fmt.Errorf("%w: %s is where modproxy itself listens", ErrRefused, where)
	case ip.IsUnspecified(): // the kernel takes it for this machine
		return fmt.Errorf("%w: %s is not the address of a host", ErrRefused, where)
	case p.exceptsName(t), p.exceptsAddr(ip, t.port):
		return nil
	}
	if err := p.ordinary(t); err != nil {
		return err
	}
	if what := special(ip); what != "" {
		return fmt.Errorf("%w: %s is %s; egress.allow can except it", ErrRefused, where, what)
	}
	return nil
}

// ordinary returns an error if t needs an exception whatever its address is.
func (p *policy) ordinary(t target) error {
	if t.plain {
		return fmt.Errorf("%w: http to %s would not be encrypted; egress.allow can except it", ErrRefused, t.hostport())
	}
	if !slices.Contains(p.ports, t.port) {
		return fmt.Errorf("%w: port %d of %s; egress.allow can except it", ErrRefused, t.port, t.host)
	}
	return nil
}

// isOwn reports whether this process listens on to.
func (p *policy) isOwn(to netip.AddrPort) bool {
	found := false
	p.own.Range(func(key, _ any) bool {
		own := key.(netip.AddrPort)
		found = own.Port() == to.Port() &&
			(own.Addr().Unmap() == to.Addr() || own.Addr().IsUnspecified() && isLocal(to.Addr()))
		return !found
	})
	return found
}

// isLocal reports whether ip may be an address of this machine.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.IP(ip.AsSlice()))
	})
}
