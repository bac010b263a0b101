//go:build linux

package hostile_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// names is the name server.
type names struct {
	mu    sync.Mutex
	fixed map[string][]netip.Addr
	// turns has names whose address is another one every time, the last for ever.
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

// set makes a name lead to addresses.
func (n *names) set(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fixed[name] = addresses(to)
}

// rebind makes a name lead to one address after the other.
func (n *names) rebind(name string, to ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turns[name] = addresses(to)
}

// lookUp is what a name leads to; ok is false when there is no such name. Every
// name below evil.test is the strangers'.
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

// serve answers questions over UDP.
func (n *names) serve() error {
	conn, err := net.ListenPacket("udp", nameServer+":53")
	if err != nil {
		return fmt.Errorf("name server: %w", err)
	}
	go func() {
		packet := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer, err := n.answer(packet[:size]); err == nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

func (n *names) answer(packet []byte) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(packet)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	found, ok := n.lookUp(strings.TrimSuffix(q.Name.String(), "."), q.Type == dnsmessage.TypeAAAA)
	if !ok {
		message.RCode = dnsmessage.RCodeNameError
	}
	for _, ip := range found {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type}}
		switch q.Type {
		case dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: ip.As4()}
		case dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: ip.As16()}
		default:
			continue
		}
		message.Answers = append(message.Answers, r)
	}
	return message.Pack()
}
