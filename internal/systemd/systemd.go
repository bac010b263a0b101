// Package systemd receives a listening socket from a service manager, and notifies it.
//
//	socket, err := systemd.Socket(os.Getenv)                    // nil if the service manager passed no socket
//	err = systemd.Notify(os.Getenv("NOTIFY_SOCKET"), "READY=1") // does nothing if the variable is empty
//
// The service manager keeps the socket open while it replaces one process by another. Clients that connect meanwhile wait in the queue of the
// kernel, and are not refused.
//
// Invariant: [Socket] removes LISTEN_PID, LISTEN_FDS and LISTEN_FDNAMES from the environment, so that no child process uses them.
//
// The manual pages sd_listen_fds(3) and sd_notify(3) specify the protocols.
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/modproxy/modproxy/internal/hint"
)

// firstDescriptor is the number of the file descriptor of the first passed socket.
const firstDescriptor = 3

// Socket returns the socket that the service manager passed to this process, or nil. variable returns an environment variable. The error says
// so if several sockets were passed, or a socket that is not a listening TCP socket: requests on a Unix socket would count as those of the
// operator.
func Socket(variable func(string) string) (*net.TCPListener, error) {
	pid, passed := variable("LISTEN_PID"), variable("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name) // the name is valid
	}
	if pid != strconv.Itoa(os.Getpid()) || passed == "" {
		return nil, nil // no socket, or the variables are for another process
	}
	if n, err := strconv.Atoi(passed); err != nil || n != 1 {
		return nil, hint.With(fmt.Errorf("LISTEN_FDS: the service manager passed %.20q sockets, and modproxy serves one", passed),
			"use one ListenStream in the socket unit: with a port and no address, it accepts IPv4 and IPv6")
	}
	file := os.NewFile(firstDescriptor, "the passed socket")
	defer file.Close() // the listener has a copy
	listener, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("the passed socket: %w", err)
	}
	socket, ok := listener.(*net.TCPListener)
	if !ok {
		return nil, hint.With(errors.Join(fmt.Errorf("the passed socket listens on %s, and not on TCP", listener.Addr().Network()), listener.Close()),
			"in the socket unit, ListenStream is an address and a port")
	}
	return socket, nil
}

// Notify sends state to the service manager at the address in NOTIFY_SOCKET. It does nothing if the address is empty.
func Notify(address, state string) error {
	if address == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", address)
	if err == nil {
		_, err = conn.Write([]byte(state))
		err = errors.Join(err, conn.Close())
	}
	if err != nil {
		return fmt.Errorf("NOTIFY_SOCKET: %s: %w", state, err)
	}
	return nil
}
