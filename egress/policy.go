package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// policy decides where connections may go.
type policy struct {
	ports      []uint16
	exceptions []exception
	own        sync.Map // the netip.AddrPort of each listener of this process
}

// exception is a hostname, or an address or CIDR. Port 0 is every port.
type exception struct {
	name   string
	prefix netip.Prefix
	port   uint16
}

func newPolicy(cfg Config) (*policy, error) {
	p := &policy{ports: []uint16{443}}
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
		e, err := parseException(s)
		if err != nil {
			return nil, fmt.Errorf("egress: allow: %.80q: want a hostname, an address or a CIDR, the first two with or without a port", s)
		}
		p.exceptions = append(p.exceptions, e)
	}
	return p, nil
}

// parseException reads one entry of [Config.Allow].
func parseException(s string) (exception, error) {
	if prefix, err := netip.ParsePrefix(s); err == nil && !prefix.Addr().Is4In6() {
		return exception{prefix: prefix.Masked()}, nil
	}
	t, err := parseHost(s)
	if err != nil {
		t, err = parseHostport(s)
	}
	if t.ip.IsValid() {
		return exception{prefix: netip.PrefixFrom(t.ip, t.ip.BitLen()), port: t.port}, err
	}
	return exception{name: t.host, port: t.port}, err
}

// excepts reports whether t's name is excepted, or ip if it is valid.
func (p *policy) excepts(t target, ip netip.Addr) bool {
	return slices.ContainsFunc(p.exceptions, func(e exception) bool {
		return (e.port == 0 || e.port == t.port) && (e.name == t.host || e.prefix.Contains(ip))
	})
}

func (p *policy) exceptsName(t target) bool { return p.excepts(t, netip.Addr{}) }

// check returns an error if t is refused whatever t.host resolves to.
func (p *policy) check(t target) error {
	if t.ip.IsValid() {
		return p.admit(t, t.ip)
	}
	if p.exceptsName(t) || slices.ContainsFunc(p.exceptions, func(e exception) bool {
		return e.name == "" && (e.port == 0 || e.port == t.port) // it may resolve to that
	}) {
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
	case p.excepts(t, ip):
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
