//go:build linux

package packages_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// The variables that tell the tests where the files are that were made before they lost the network.
const (
	rootVariable     = "PACKAGES_ROOT"     // a Debian root, which is not changed
	builtVariable    = "PACKAGES_BUILT"    // packages of the checkout
	previousVariable = "PACKAGES_PREVIOUS" // packages of the previous commit; empty if the checkout has no history
)

// The versions of both packages.
const (
	builtVersion    = "v0.0.2"
	previousVersion = "v0.0.1"
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	world := &rig.World{
		Name: "packages", Namespaces: rig.OwnMounts | rig.OwnProcesses | rig.OwnNetwork,
		Possible: func() error { return prepare(dir) },
		Enter:    func() error { return errors.Join(rig.EnterMounts(), rig.LoopbackUp()) },
		Run:      (*testing.M).Run,
	}
	return world.Main(m)
}

// prepare builds all packages and the Debian root, and returns the reason why the tests cannot run here, or nil.
func prepare(dir string) error {
	if os.Geteuid() != 0 {
		return errors.New("installing packages in a root needs root")
	}
	programs := []string{"dpkg-deb", "mmdebstrap", "rpm", "systemd-nspawn"}
	if rig.Long() {
		programs = append(programs, "qemu-aarch64-static", "runc", "umoci")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is needed: \"make packages\" and \"make release-check\" name the Debian packages", program)
		}
	}
	root, err := debianRoot()
	if err != nil {
		return err
	}
	built, previous := filepath.Join(dir, "built"), filepath.Join(dir, "previous")
	if err := release("-version", builtVersion, "-packages", "-out", built); err != nil {
		return err
	}
	if exec.Command("git", "rev-parse", "--verify", "--quiet", "HEAD^").Run() != nil {
		previous = ""
	} else if err := release("-version", previousVersion, "-commit", "HEAD^", "-packages", "-out", previous); err != nil {
		return err
	}
	if rig.Long() {
		if err := prepareRelease(dir); err != nil {
			return err
		}
	}
	program, err := unpackedProgram(built, filepath.Join(dir, "unpacked"))
	if err != nil {
		return err
	}
	return errors.Join(os.Setenv(rootVariable, root), os.Setenv(builtVariable, built), os.Setenv(previousVariable, previous),
		os.Setenv(rig.ProgramVariable, program))
}

// release runs tools/release.
func release(args ...string) error {
	cmd := exec.Command("go", append([]string{"run", "-C", "../../tools/release", "."}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tools/release %v: %w\n%s", args, err, out)
	}
	return nil
}

// unpackedProgram returns the path of the program in the .deb, which it unpacks into the directory to.
func unpackedProgram(packages, to string) (string, error) {
	deb, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	if err != nil || len(deb) != 1 {
		return "", fmt.Errorf("%s has not one .deb: %v %w", packages, deb, err)
	}
	if out, err := exec.Command("dpkg-deb", "--extract", deb[0], to).CombinedOutput(); err != nil {
		return "", fmt.Errorf("dpkg-deb: %w\n%s", err, out)
	}
	return filepath.Join(to, "usr", "bin", "modproxy"), nil
}
