//go:build linux

package hostile_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// canaries are addresses that no connection may reach. They accept connections and record them.
var canaries = []string{
	"169.254.169.254:80", "169.254.169.254:443", // metadata of most clouds
	"[fd00:ec2::254]:80", "[fd00:ec2::254]:443", // and its IPv6
	"100.100.100.200:80", "100.100.100.200:443",
	"192.0.0.192:80", "192.0.0.192:443",
	"10.0.0.5:80", "10.0.0.5:443", "10.0.0.5:22",
	"127.0.0.1:80", "127.0.0.1:443", "127.0.0.1:5432", "127.0.0.1:6060",
	"[::1]:80", "[::1]:443",
}

// touches are connections that must not exist.
type touches struct {
	mu   sync.Mutex
	seen []string
}

func (c *touches) add(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if line := fmt.Sprintf(format, args...); len(c.seen) < 100 && !slices.Contains(c.seen, line) {
		c.seen = append(c.seen, line)
	}
}

// check fails a test if there were any since the beginning or the last check.
func (c *touches) check(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.seen {
		t.Errorf("touched: %s", line)
	}
	c.seen = nil
}

// startCanaries listens at the canaries, and for attempts to connect elsewhere.
func (c *touches) startCanaries() error {
	for _, address := range canaries {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("canary: %w", err)
		}
		go c.accept(l)
	}
	return c.listenIn()
}

// accept answers connections as a metadata server might.
func (c *touches) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Second))
			first := make([]byte, 512)
			n, _ := conn.Read(first)
			c.add("canary %s, which read %.80q", l.Addr(), first[:n])
			body := secretCanary + "\n"
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-Terraform-Get: /x.zip\r\n\r\n%s", len(body), body)
		}()
	}
}

// listenIn records every attempt to connect to an address that is neither a loopback address, where the test talks to modproxy, nor a known
// server.
func (c *touches) listenIn() error {
	const everything = 0x0300 // ETH_P_ALL in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, everything)
	if err != nil {
		return fmt.Errorf("packets: %w", err)
	}
	raw, err := bpf.Assemble(firstPackets)
	if err != nil {
		return fmt.Errorf("packets: %w", err)
	}
	filter := make([]unix.SockFilter, len(raw))
	for i, in := range raw {
		filter[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}); err != nil {
		return fmt.Errorf("packets: %w", err)
	}
	go func() {
		packet := make([]byte, 128)
		for {
			n, _, err := unix.Recvfrom(fd, packet, 0)
			if err != nil && err != unix.EINTR {
				c.add("packets are not seen any more: %v", err)
				return
			}
			if to, kind, ok := destination(packet[:max(n, 0)]); ok && !expected(to) {
				c.add("%s to %s", kind, to)
			}
		}
	}()
	return nil
}

// firstPackets passes packets that open a TCP connection, and all UDP packets.
var firstPackets = []bpf.Instruction{
	bpf.LoadExtension{Num: bpf.ExtProto},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x86dd, SkipTrue: 6},
	bpf.LoadAbsolute{Off: 9, Size: 1}, // IPv4: its protocol
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipTrue: 11},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 9},
	bpf.LoadMemShift{Off: 0},
	bpf.LoadIndirect{Off: 13, Size: 1},
	bpf.Jump{Skip: 4},
	bpf.LoadAbsolute{Off: 6, Size: 1}, // IPv6
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_UDP, SkipTrue: 5},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_TCP, SkipTrue: 3},
	bpf.LoadAbsolute{Off: 40 + 13, Size: 1},
	bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0x12}, // SYN and ACK
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0x02, SkipTrue: 1},
	bpf.RetConstant{Val: 0},
	bpf.RetConstant{Val: 128},
}

func destination(packet []byte) (to netip.AddrPort, kind string, ok bool) {
	if len(packet) < 20 {
		return to, "", false
	}
	address, header, protocol := packet[16:20], int(packet[0]&15)*4, packet[9]
	if packet[0]>>4 == 6 {
		if len(packet) < 40 {
			return to, "", false
		}
		address, header, protocol = packet[24:40], 40, packet[6]
	}
	if len(packet) < header+4 {
		return to, "", false
	}
	ip, _ := netip.AddrFromSlice(address)
	port := uint16(packet[header+2])<<8 | uint16(packet[header+3])
	kind = "a connection"
	if protocol == unix.IPPROTO_UDP {
		kind = "a datagram"
	}
	return netip.AddrPortFrom(ip.Unmap(), port), kind, true
}

func expected(to netip.AddrPort) bool {
	if to.Addr().IsLoopback() {
		return true
	}
	ip := to.Addr().String()
	if to.Port() == 22 && (ip == sshAddress || ip == stallingAddress) {
		return true
	}
	return to.Port() == 443 && (strings.HasPrefix(ip, goodNetwork) || ip == insideAddress)
}
