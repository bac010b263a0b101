//go:build linux

package faults_test

import (
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/modproxy/modproxy/test/rig"
)

// serveNames starts a name server for the programs in this namespace until the test ends. Every name has the address 127.0.0.1, unless
// code returns another answer. The counter counts lookups.
func serveNames(t *testing.T, code func(name string) dnsmessage.RCode) *atomic.Int64 {
	t.Helper()
	const address, conf = "127.0.53.53", "/etc/resolv.conf"
	asked := &atomic.Int64{}
	conn, err := rig.ServeNames(address, func(name string, six bool) ([]netip.Addr, dnsmessage.RCode) {
		asked.Add(1)
		if code := code(name); code != dnsmessage.RCodeSuccess || six {
			return nil, code
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, dnsmessage.RCodeSuccess
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := rig.ReplaceFile(conf, "nameserver "+address+"\n"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(conf, 0); err != nil {
			t.Error(err)
		}
	})
	return asked
}
