//go:build linux

package faults_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

const nameServer = "127.0.53.53"

// silence is what a name server that does not answer answers with.
const silence dnsmessage.RCode = 1<<12 - 1

// names is a name server: every name is that of 127.0.0.1, unless code says how it
// is answered instead.
type names struct {
	asked atomic.Int64
	code  func(name string) dnsmessage.RCode
}

// serveNames makes a name server the one that programs in here ask, until the test
// is over.
func serveNames(t *testing.T, n *names) {
	t.Helper()
	conn, err := net.ListenPacket("udp", nameServer+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	own := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(own, []byte("nameserver "+nameServer+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const conf = "/etc/resolv.conf"
	if err := syscall.Mount(own, conf, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(conf, 0); err != nil {
			t.Error(err)
		}
	})
	go func() {
		packet := make([]byte, 1500)
		for {
			size, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			if answer := n.answer(packet[:size]); answer != nil {
				conn.WriteTo(answer, from)
			}
		}
	}()
}

// answer is nil for none.
func (n *names) answer(packet []byte) []byte {
	n.asked.Add(1)
	var p dnsmessage.Parser
	head, err := p.Start(packet)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	code := n.code(strings.TrimSuffix(q.Name.String(), "."))
	if code == silence {
		return nil
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: head.ID, Response: true, RecursionDesired: true, RecursionAvailable: true, RCode: code},
		Questions: []dnsmessage.Question{q},
	}
	if code == dnsmessage.RCodeSuccess && q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, Type: q.Type},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, _ := m.Pack() // it was parsed
	return answer
}
