//go:build linux

package faults_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

func TestMain(m *testing.M) {
	world := &rig.World{
		Name: "faults", Namespaces: rig.OwnMounts | rig.OwnProcesses | rig.OwnNetwork, Possible: possible,
		Enter: func() error { return errors.Join(rig.EnterMounts(), rig.LoopbackUp()) },
		Run:   (*testing.M).Run,
	}
	os.Exit(world.Main(m))
}

func rounds(short, full int) int {
	if rig.Long() {
		return full
	}
	return short
}

// possible returns the reason why the tests cannot run here, or nil.
func possible() error {
	if os.Geteuid() != 0 {
		return errors.New("mounting file systems needs root")
	}
	for _, tool := range []string{"mount", "umount", "mkfs.ext4", "fsfreeze", "strace", "setpriv"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("mount, umount, mkfs.ext4, fsfreeze, strace and setpriv are needed: %w", err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("loop devices are needed: %w", err)
	}
	return nil
}
