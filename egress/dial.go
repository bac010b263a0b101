package egress

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	maxAddrs = 16                     // of one name are tried
	stagger  = 250 * time.Millisecond // until the next address is tried as well (RFC 8305, section 5)
)

// Check is [ErrRefused] if u is sure to be refused, by its form, its scheme, its
// port or its literal address. It resolves and connects nothing.
func (c *Client) Check(_ context.Context, u *url.URL) error {
	t, err := targetOf(u)
	if err != nil {
		return err
	}
	return c.policy.check(t)
}

// Resolve is an address of host that may be connected to on port. Who connects
// to it does so without asking for the name again.
//
// Errors: [ErrRefused] if there is no such address, those of the resolver.
func (c *Client) Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error) {
	t, err := parseHostport(net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addrs[0], t.port), nil
}

// Dial connects to host:port over TCP, never through a proxy. It is for protocols
// that protect themselves, such as ssh.
func (c *Client) Dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	if network != "tcp" {
		return nil, fmt.Errorf("egress: network %q: want tcp", network)
	}
	t, err := parseHostport(hostport)
	if err != nil {
		return nil, err
	}
	return c.dial(ctx, t)
}

// dial connects to t directly.
func (c *Client) dial(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.ConnectTimeout, fmt.Errorf("%s: no connection within %v", t.hostport(), c.cfg.ConnectTimeout))
	defer cancel()
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	dialer := c.policy.dialer(t)
	conn, err := race(ctx, addrs, func(ctx context.Context, ip netip.Addr) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(ip, t.port).String())
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return conn, err
}

// dialer connects for t. Its check, of the address that is connected to and at that
// moment, is what the policy rests on; all that is checked before only saves the way.
func (p *policy) dialer(t target) *net.Dialer {
	return &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || to.Port() != t.port {
			return fmt.Errorf("%w: %.80q", ErrRefused, address)
		}
		return p.admit(t, to.Addr())
	}}
}

// addresses is, never empty, what t may be connected to at. Addresses that the
// policy refuses are left out; if there are no others the error says why.
func (c *Client) addresses(ctx context.Context, t target) ([]netip.Addr, error) {
	if err := c.policy.check(t); err != nil {
		return nil, err
	}
	all := []netip.Addr{t.ip}
	if !t.ip.IsValid() {
		var err error
		if all, err = c.cfg.Resolver.LookupNetIP(ctx, "ip", t.host); err != nil {
			return nil, err
		}
	}
	refused := fmt.Errorf("%s has no address", t.host)
	var addrs []netip.Addr
	for _, ip := range all[:min(len(all), maxAddrs)] {
		if err := c.policy.admit(t, ip); err != nil {
			refused = err
			continue
		}
		addrs = append(addrs, ip.Unmap())
	}
	if len(addrs) == 0 {
		return nil, refused
	}
	return addrs, nil
}

// race dials one address after the other, without waiting long for any, and
// returns the first connection, or the first error if there is none.
func race(ctx context.Context, addrs []netip.Addr, dial func(context.Context, netip.Addr) (net.Conn, error)) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result, len(addrs))
	started, pending := 0, 0
	start := func() {
		ip := addrs[started]
		started, pending = started+1, pending+1
		go func() {
			conn, err := dial(ctx, ip)
			results <- result{conn, err}
		}()
	}
	start()
	var first error
	for {
		var later <-chan time.Time
		if started < len(addrs) {
			later = time.After(stagger)
		}
		select {
		case <-later:
			start()
			continue
		case r := <-results:
			pending--
			if r.err == nil {
				go func() { // those that come too late
					for range pending {
						if r := <-results; r.err == nil {
							r.conn.Close()
						}
					}
				}()
				return r.conn, nil
			}
			if first == nil {
				first = r.err
			}
		}
		if started < len(addrs) {
			start()
		} else if pending == 0 {
			return nil, first
		}
	}
}
