package egress

import "net/netip"

// blocks are the ranges that the IANA special-purpose address registries
// (https://www.iana.org/assignments/iana-ipv4-special-registry/ and
// https://www.iana.org/assignments/iana-ipv6-special-registry/) do not list as globally reachable, multicast,
// and every range of IPv6 that carries an IPv4 address: where such a packet ends is decided by a translator.
// The globally reachable parts of 192.0.0.0/24 and 2001::/23 serve protocols that are not used here.
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

// globalUnicast6 is all that IANA hands out of IPv6 (https://www.iana.org/assignments/ipv6-address-space/).
var globalUnicast6 = netip.MustParsePrefix("2000::/3")

// special returns why ip, which is unmapped, is not an address on the internet; empty if it is one.
func special(ip netip.Addr) string {
	if ip.Zone() != "" {
		return "of one link only"
	}
	for _, b := range blocks {
		if b.prefix.Contains(ip) {
			return b.what
		}
	}
	if ip.Is6() && !globalUnicast6.Contains(ip) {
		return "not global unicast (RFC 4291)"
	}
	return ""
}
