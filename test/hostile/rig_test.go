//go:build linux

package hostile_test

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The checks of the rig detect what they look for. Otherwise their silence proves nothing.
func TestTheRigSees(t *testing.T) {
	defer func() { world.touches.seen = nil }()
	for address, want := range map[string]string{
		"169.254.169.254:80":       "canary 169.254.169.254:80",
		"[::ffff:10.0.0.5]:443":    "canary 10.0.0.5:443",
		"[fd00:ec2::254]:443":      "canary [fd00:ec2::254]:443",
		"127.0.0.1:6060":           "canary 127.0.0.1:6060",
		"[64:ff9b::a9fe:a9fe]:443": "a connection to [64:ff9b::a9fe:a9fe]:443",
		"192.168.7.7:443":          "a connection to 192.168.7.7:443",
		"8.8.8.8:443":              "a connection to 8.8.8.8:443",
		strangersAddress + ":8443": "a connection to " + strangersAddress + ":8443",
	} {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Write([]byte("x"))
			c.Close()
		}
		if !eventually(func() bool { return world.touches.has(want) }) {
			t.Errorf("a connection to %s is not seen: %q", address, world.touches.seen)
		}
	}
	if c, err := net.Dial("udp", "8.8.8.8:53"); err == nil {
		c.Write([]byte("x"))
		c.Close()
	}
	if !eventually(func() bool { return world.touches.has("a datagram to 8.8.8.8:53") }) {
		t.Error("a datagram is not seen")
	}
	if err := exec.Command("sh", "-c", "sleep 0.2 # "+secretToken).Run(); err != nil {
		t.Fatal(err)
	}
	world.arguments.mu.Lock()
	defer world.arguments.mu.Unlock()
	if len(world.arguments.seen) == 0 {
		t.Error("a secret in an argument is not seen")
	}
	world.arguments.seen = nil
}

func (c *touches) has(prefix string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.seen, func(s string) bool { return strings.HasPrefix(s, prefix) })
}

// eventually waits a while until f returns true.
func eventually(f func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return true
		}
	}
	return f()
}
