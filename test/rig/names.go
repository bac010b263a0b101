package rig

import (
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Silence is the code of a name server that does not answer.
const Silence dnsmessage.RCode = 1<<12 - 1

// LookUp returns the addresses of a name, of IPv6 or else of IPv4, or the response code of an error.
type LookUp func(name string, six bool) ([]netip.Addr, dnsmessage.RCode)

// ServeNames starts a name server on port 53 of an address. It answers over UDP until it is closed.
func ServeNames(address string, lookUp LookUp) (net.PacketConn, error) {
	conn, err := net.ListenPacket("udp", net.JoinHostPort(address, "53"))
	if err != nil {
		return nil, err
	}
	go func() {
		packet := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := lookUp.answer(packet[:size]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
	return conn, nil
}

// answer returns the answer to a packet, or nil without an answer.
func (lookUp LookUp) answer(packet []byte) []byte {
	var p dnsmessage.Parser
	head, err := p.Start(packet)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	found, code := lookUp(strings.TrimSuffix(q.Name.String(), "."), q.Type == dnsmessage.TypeAAAA)
	if code == Silence {
		return nil
	}
	m := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: head.ID, Response: true, Authoritative: true, RecursionDesired: head.RecursionDesired, RecursionAvailable: true, RCode: code,
		},
		Questions: []dnsmessage.Question{q},
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
		m.Answers = append(m.Answers, r)
	}
	answer, err := m.Pack()
	if err != nil {
		return nil
	}
	return answer
}
