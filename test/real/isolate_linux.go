package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// enterIsolation runs this program again in namespaces of its own, and returns its exit
// code.
func enterIsolation() (int, error) {
	err := rig.RunAgain(rig.OwnMounts|rig.OwnProcesses|rig.OwnNetwork, os.Args[1:], append(os.Environ(), rig.RoleVariable+"=world"), os.Stdout)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil // it has said why
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// isolate gives the names to this machine, in this process's namespaces only.
func isolate(names ...string) error {
	return errors.Join(rig.EnterMounts(), rig.LoopbackUp(),
		rig.ReplaceFile("/etc/hosts", "127.0.0.1 localhost "+strings.Join(names, " ")+"\n"),
		rig.ReplaceFile("/etc/resolv.conf", "nameserver 127.0.0.1\n"))
}
