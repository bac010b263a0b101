package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
)

// policy decides which destinations are allowed.
type policy struct {
	ports      []uint16
	exceptions []exception
	own        sync.Map // the netip.AddrPort of each listener of this process
}

// exception is a hostname, or an address or CIDR. Port 0 means every port.
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
			return nil, fmt.Errorf("egress: allow: %.80q: want a hostname, an address or a CIDR, "+
				"the first two with or without a port", s)
		}
		p.exceptions = append(p.exceptions, e)
	}
	return p, nil
}

// parseException parses one entry of [Config.Allow].
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

// excepts reports whether an exception covers the name of t, or ip if it is valid.
func (p *policy) excepts(t target, ip netip.Addr) bool {
	return slices.ContainsFunc(p.exceptions, func(e exception) bool {
		return (e.port == 0 || e.port == t.port) && (e.name == t.host || e.prefix.Contains(ip))
	})
}

func (p *policy) exceptsName(t target) bool { return p.excepts(t, netip.Addr{}) }

// check returns an error if t is refused for every address that t.host may resolve to.
func (p *policy) check(t target) error {
	if t.ip.IsValid() {
		return p.admit(t, t.ip)
	}
	if p.exceptsName(t) || slices.ContainsFunc(p.exceptions, func(e exception) bool {
		return e.name == "" && (e.port == 0 || e.port == t.port) // the name may resolve to an address in the exception
	}) {
		return nil
	}
	return p.ordinary(t)
}

// admit returns an error unless the policy allows a connection for t to ip.
func (p *policy) admit(t target, ip netip.Addr) error {
	ip = ip.Unmap()
	where := t.hostport()
	if !t.ip.IsValid() {
		where = fmt.Sprintf("%s, for %s,", ip, where)
	}
	switch {
	case p.isOwn(netip.AddrPortFrom(ip, t.port)):
		return fmt.Errorf("%w: %s is where modproxy itself listens", ErrRefused, where)
	case ip.IsUnspecified(): // the kernel connects to this machine
		return fmt.Errorf("%w: %s is not the address of a host", ErrRefused, where)
	case p.excepts(t, ip):
		return nil
	}
	if err := p.ordinary(t); err != nil {
		return err
	}
	if what := special(ip); what != "" {
		return fmt.Errorf("%w: %s is %s (operator: egress.allow can except it)", ErrRefused, where, what)
	}
	return nil
}

// ordinary returns an error if t needs an exception regardless of its address.
func (p *policy) ordinary(t target) error {
	if t.plain {
		return fmt.Errorf("%w: http to %s would not be encrypted (operator: egress.allow can except it)", ErrRefused, t.hostport())
	}
	if !slices.Contains(p.ports, t.port) {
		return fmt.Errorf("%w: port %d of %s (operator: egress.allow can except it)", ErrRefused, t.port, t.host)
	}
	return nil
}

// isOwn reports whether this process listens on to.
func (p *policy) isOwn(to netip.AddrPort) bool {
	for key := range p.own.Range {
		own := key.(netip.AddrPort)
		if own.Port() == to.Port() && (own.Addr().Unmap() == to.Addr() || own.Addr().IsUnspecified() && isLocal(to.Addr())) {
			return true
		}
	}
	return false
}

// isLocal reports whether ip may be an address of this machine.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(net.IP(ip.AsSlice()))
	})
}

// blocks are the ranges that the IANA special-purpose address registries
// (https://www.iana.org/assignments/iana-ipv4-special-registry/ and
// https://www.iana.org/assignments/iana-ipv6-special-registry/) do not list as globally reachable, multicast, and every IPv6
// range that contains IPv4 addresses: a translator decides where such a packet ends. The globally reachable parts of
// 192.0.0.0/24 and 2001::/23 serve protocols that modproxy does not use.
var blocks = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private-use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared address space (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private-use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "for protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "for documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "a former 6to4 relay (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private-use (RFC 1918)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "for benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "for documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "for documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved (RFC 1112)"},
	// Not in the registry: Azure's hosts serve their guests at this address
	// (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16).
	{netip.MustParsePrefix("168.63.129.16/32"), "the platform of a cloud"},

	{netip.MustParsePrefix("::1/128"), "loopback (RFC 4291)"},
	{netip.MustParsePrefix("64:ff9b::/96"), "translated to IPv4 (RFC 6052)"},
	{netip.MustParsePrefix("64:ff9b:1::/48"), "translated to IPv4 (RFC 8215)"},
	{netip.MustParsePrefix("2001::/32"), "Teredo (RFC 4380)"},
	{netip.MustParsePrefix("2001::/23"), "for protocol assignments (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "for documentation (RFC 3849)"},
	{netip.MustParsePrefix("2002::/16"), "6to4 (RFC 3056)"},
	{netip.MustParsePrefix("3fff::/20"), "for documentation (RFC 9637)"},
	{netip.MustParsePrefix("fc00::/7"), "unique-local (RFC 4193)"},
	{netip.MustParsePrefix("fe80::/10"), "link-local (RFC 4291)"},
	{netip.MustParsePrefix("ff00::/8"), "multicast (RFC 4291)"},
}

// globalUnicast6 is the range from which IANA allocates IPv6 addresses (https://www.iana.org/assignments/ipv6-address-space/).
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// special returns the reason why an unmapped ip is not a globally reachable address, or an empty string.
func special(ip netip.Addr) string {
	if ip.Zone() != "" {
		return "of one link only"
	}
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.what
		}
	}
	if !ip.Is4() && !globalUnicast6.Contains(ip) {
		return "not global unicast (RFC 4291)"
	}
	return ""
}
