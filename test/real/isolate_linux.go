package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// enterFar runs this program again in a network without a route, for the far side of a week. It writes the lines of the
// table from there.
func (g *gap) enterFar(week, key string, to io.Writer) error {
	own := filepath.Join(g.dir, "far-tmp") // for files that replace those of the system
	if err := os.MkdirAll(own, 0o700); err != nil {
		return err
	}
	var out bytes.Buffer
	args := []string{"-scratch", g.dir, "-proxy", g.proxy, "-tools", strings.Join(g.tools, ","), week, key}
	env := append(os.Environ(), rig.RoleVariable+"=far", "TMPDIR="+own)
	err := rig.RunAgain(rig.OwnMounts|rig.OwnNetwork, args, env, &out)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out.String())
	}
	_, err = to.Write(out.Bytes())
	return err
}

// enterIsolation runs this program again in namespaces of its own, and returns its exit code.
func enterIsolation() (int, error) {
	err := rig.RunAgain(rig.OwnMounts|rig.OwnProcesses|rig.OwnNetwork, os.Args[1:], append(os.Environ(), rig.RoleVariable+"=world"), os.Stdout)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(exit.ExitCode(), 1), nil // it has printed the reason
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

// isolate resolves the names to this machine, in the namespaces of this process only, and sends other look-ups to a
// name server.
func isolate(nameServer string, names ...string) error {
	return errors.Join(rig.EnterMounts(), rig.LoopbackUp(),
		rig.ReplaceFile("/etc/hosts", "127.0.0.1 localhost "+strings.Join(names, " ")+"\n"),
		rig.ReplaceFile("/etc/resolv.conf", "nameserver "+nameServer+"\noptions timeout:1 attempts:1\n"))
}
