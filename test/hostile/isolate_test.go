//go:build linux

package hostile_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/modproxy/modproxy/test/rig"

	"golang.org/x/sys/unix"
)

// nameServer is the address of the world's name server.
const nameServer = "127.0.0.53"

// isolate turns the new namespaces of this process into a machine that has every address and no way out.
func isolate() error {
	if err := rig.EnterMounts(); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"/etc/resolv.conf":   "nameserver " + nameServer + "\noptions timeout:2 attempts:2\n",
		"/etc/nsswitch.conf": "hosts: files dns\n",
		"/etc/hosts":         "127.0.0.1 localhost\n",
	} {
		if err := rig.ReplaceFile(name, text); err != nil {
			return err
		}
	}
	if err := rig.LoopbackUp(); err != nil {
		return err
	}
	// Every address belongs to this machine. No packet leaves it, and connections to forbidden addresses are visible.
	if err := routeHere(unix.AF_INET); err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	if err := routeHere(unix.AF_INET6); err != nil {
		return fmt.Errorf("routes: %w (the world has canaries at IPv6 addresses)", err)
	}
	return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
}

// routeHere makes every address of a family local, as "ip route add local 0.0.0.0/0 dev lo" does (rtnetlink(7)).
func routeHere(family uint8) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const lo = 1 // the index of lo, which comes first in a network namespace
	message := struct {
		unix.NlMsghdr
		unix.RtMsg
		attribute unix.RtAttr
		index     uint32
	}{
		NlMsghdr: unix.NlMsghdr{
			Type:  unix.RTM_NEWROUTE,
			Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK | unix.NLM_F_CREATE,
		},
		RtMsg: unix.RtMsg{
			Family: family, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_BOOT,
			Scope: unix.RT_SCOPE_HOST, Type: unix.RTN_LOCAL,
		},
		attribute: unix.RtAttr{Len: 8, Type: unix.RTA_OIF},
		index:     lo,
	}
	if family == unix.AF_INET6 {
		message.Scope = unix.RT_SCOPE_UNIVERSE
	}
	message.Len = uint32(unsafe.Sizeof(message))
	packet := unsafe.Slice((*byte)(unsafe.Pointer(&message)), message.Len)
	if err := unix.Sendto(fd, packet, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return errors.New("netlink: a short answer")
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}

// enterJail makes everything except some directories read-only, and then becomes the program.
func enterJail(writable, program string, args []string) int {
	var err error
	for dir := range strings.SplitSeq(writable, ":") {
		if err == nil {
			err = unix.Mount(dir, dir, "", unix.MS_BIND, "")
		}
	}
	if err == nil {
		err = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	for dir := range strings.SplitSeq(writable, ":") {
		if err == nil {
			err = unix.MountSetattr(unix.AT_FDCWD, dir, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}
	}
	if err == nil {
		var env []string
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "RIG_") {
				env = append(env, v)
			}
		}
		err = unix.Exec(program, append([]string{program}, args...), env)
	}
	fmt.Fprintln(os.Stderr, "hostile: jail:", err)
	return 1
}
