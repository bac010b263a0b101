//go:build linux

package hostile_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

func TestMain(m *testing.M) {
	if os.Getenv(rig.RoleVariable) == "jail" {
		os.Exit(enterJail(os.Args[1], os.Args[2], os.Args[3:]))
	}
	where := &rig.World{
		Name: "hostile", Namespaces: rig.OwnMounts | rig.OwnProcesses | rig.OwnNetwork, Flags: rig.AsTested,
		Enter: func() error {
			if err := isolate(); err != nil {
				return err
			}
			return world.start()
		},
		Run: runInWorld,
	}
	os.Exit(where.Main(m))
}

func runInWorld(m *testing.M) int {
	code := m.Run()
	if !finishShared() {
		code = 1
	}
	for _, line := range cutDown() {
		fmt.Fprintf(os.Stderr, "hostile: cut down, \"make hostile\" runs it in full: %s\n", line)
	}
	return code
}
