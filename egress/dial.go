package egress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

const (
	maxAddrs = 16                     // addresses of one name that are tried
	stagger  = 250 * time.Millisecond // before the next address is tried in parallel (RFC 8305, section 5)
)

// Check returns [ErrRefused] if u is certain to be refused for its form, scheme, port or address. It does not use the network.
func (c *Client) Check(_ context.Context, u *url.URL) error {
	t, err := targetOf(u)
	if err != nil {
		return err
	}
	return c.policy.check(t)
}

// Resolve returns an address of host to which the policy allows connections on port. The caller need not look the name up
// again.
//
// The error is [ErrRefused] if no address is allowed, or that of the resolver.
func (c *Client) Resolve(ctx context.Context, host string, port int) (netip.AddrPort, error) {
	t, err := parseHostport(net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return netip.AddrPort{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return netip.AddrPort{}, outward(err)
	}
	return addrs[0], nil
}

// connect connects to t, through a proxy if the environment has one for t.
func (c *Client) connect(ctx context.Context, t target) (net.Conn, error) {
	p, err := c.proxy(t.url())
	if err != nil {
		return nil, err
	}
	if p != nil {
		return c.connectThrough(ctx, p, t)
	}
	late := fmt.Errorf("%s: no connection within %v", t.hostport(), connectTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, late)
	defer cancel()
	addrs, err := c.addresses(ctx, t)
	if err != nil {
		return nil, err
	}
	dialer := c.policy.dialer(t)
	conn, err := race(ctx, addrs, func(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", addr.String())
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return conn, err
}

// dialer returns a dialer for t that checks each address at the time of connecting. The policy depends on this check alone.
func (p *policy) dialer(t target) *net.Dialer {
	return &net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || to.Port() != t.port {
			return fmt.Errorf("%w: %.80q", ErrRefused, address)
		}
		return p.admit(t, to.Addr())
	}}
}

// addresses returns the addresses at which the policy allows connections for t. If it has none, the error says why.
func (c *Client) addresses(ctx context.Context, t target) ([]netip.AddrPort, error) {
	if err := c.policy.check(t); err != nil {
		return nil, err
	}
	addrs, refused, err := c.lookup(ctx, t)
	if err == nil && len(addrs) == 0 {
		err = cmp.Or(refused, fmt.Errorf("%s has no address", t.host))
	}
	return addrs[:min(len(addrs), maxAddrs)], err
}

// lookup returns the addresses of t that the policy allows, and the reason for the last refused one.
func (c *Client) lookup(ctx context.Context, t target) (allowed []netip.AddrPort, refused, err error) {
	all := []netip.Addr{t.ip}
	if !t.ip.IsValid() {
		all, err = c.cfg.Resolver.LookupNetIP(ctx, "ip", t.host)
	}
	for _, ip := range all {
		if err := c.policy.admit(t, ip); err != nil {
			refused = err
		} else {
			allowed = append(allowed, netip.AddrPortFrom(ip.Unmap(), t.port))
		}
	}
	return allowed, refused, err
}

// race dials the addresses in turn. It starts the next one when a dial fails or takes longer than stagger. It returns the first
// connection, or the first error if all fail.
func race(
	ctx context.Context, addrs []netip.AddrPort, dial func(context.Context, netip.AddrPort) (net.Conn, error),
) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan result)
	var first error
	for begun, failed := 0, 0; failed < len(addrs); {
		var late <-chan time.Time
		if begun < len(addrs) {
			addr := addrs[begun]
			begun, late = begun+1, time.After(stagger)
			go func() {
				conn, err := dial(ctx, addr)
				select {
				case results <- result{conn, err}:
				case <-ctx.Done():
					if err == nil {
						conn.Close()
					}
				}
			}()
		}
		select {
		case r := <-results:
			if r.err == nil {
				return r.conn, nil
			}
			failed, first = failed+1, cmp.Or(first, r.err)
		case <-late:
		case <-ctx.Done():
			return nil, cmp.Or(first, context.Cause(ctx))
		}
	}
	return nil, first
}
