//go:build linux

package packages_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/modproxy/modproxy/test/rig"
)

// The Debian release of the root, its packages beside the essential ones, and where they come from.
var (
	suite   = "trixie"
	include = "ca-certificates,git,init,logrotate,passwd,procps,systemd"
	mirror  = "http://deb.debian.org/debian"
)

// debianRoot returns a directory with a Debian root, which is made once a week. Tests mount it below an overlay, so that
// it never changes. A root that was not used for three weeks is removed.
func debianRoot() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "modproxy-tools")
	year, week := time.Now().ISOWeek()
	sum := sha256.Sum256([]byte(suite + include + mirror))
	root := filepath.Join(cache, fmt.Sprintf("root-%d-%02d-%x", year, week, sum[:4]))
	if now := time.Now(); os.Chtimes(root, now, now) == nil {
		return root, nil
	}
	if err := errors.Join(os.MkdirAll(cache, 0o755), removeOldRoots(cache)); err != nil {
		return "", err
	}
	made := fmt.Sprintf("%s.%d.new", root, os.Getpid())
	cmd := exec.Command("mmdebstrap", "--quiet", "--variant=minbase", "--format=directory", "--include="+include, suite, made, mirror)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mmdebstrap: %w\n%s", errors.Join(err, os.RemoveAll(made)), out)
	}
	now := time.Now()
	if err := os.Chtimes(made, now, now); err != nil {
		return "", err
	}
	if err := os.Rename(made, root); err != nil { // another process was faster
		return root, os.RemoveAll(made)
	}
	return root, nil
}

func removeOldRoots(cache string) error {
	roots, err := filepath.Glob(filepath.Join(cache, "root-*"))
	if err != nil {
		return err
	}
	for _, old := range roots {
		if info, err := os.Stat(old); err == nil && time.Since(info.ModTime()) > 21*24*time.Hour {
			if err := os.RemoveAll(old); err != nil {
				return err
			}
		}
	}
	return nil
}

// A root is a Debian system for one test. It has the network of the test, which is loopback only.
type root struct {
	t   *testing.T
	dir string
}

// newRoot mounts a Debian root whose changes end with the test.
func newRoot(t *testing.T) *root {
	t.Helper()
	if err := rig.DependOnSources(); err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	r := &root{t: t, dir: filepath.Join(temp, "root")}
	changes := filepath.Join(temp, "changes")
	for _, dir := range []string{r.dir, changes} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.mount("tmpfs", changes, "tmpfs", "")
	upper, work := filepath.Join(changes, "upper"), filepath.Join(changes, "work")
	if err := errors.Join(os.Mkdir(upper, 0o755), os.Mkdir(work, 0o755)); err != nil {
		t.Fatal(err)
	}
	r.mount("overlay", r.dir, "overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", os.Getenv(rootVariable), upper, work))
	r.mount("proc", r.path("proc"), "proc", "")
	return r
}

// mount mounts a file system until the test ends.
func (r *root) mount(source, target, kind, options string) {
	r.t.Helper()
	if err := unix.Mount(source, target, kind, 0, options); err != nil {
		r.t.Fatalf("mount %s at %s: %v", source, target, err)
	}
	r.t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: unmounted earlier
			r.t.Errorf("umount %s: %v", target, err)
		}
	})
}

// path returns the path of a file of the root.
func (r *root) path(elem ...string) string { return filepath.Join(append([]string{r.dir}, elem...)...) }

// command returns a command that runs in the root, as its user root.
func (r *root) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "chroot", append([]string{r.dir}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8"}
	return cmd
}

// run runs a command in the root and returns its output.
func (r *root) run(args ...string) string {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// asService returns the arguments of a command that runs as the user of the service.
func asService(args ...string) []string {
	return append([]string{"setpriv", "--reuid=modproxy", "--regid=modproxy", "--init-groups", "--no-new-privs"}, args...)
}

// copyIn copies files into the directory /root of the root, and returns their paths there.
func (r *root) copyIn(files ...string) (paths []string) {
	r.t.Helper()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		name := filepath.Join("root", filepath.Base(file))
		if err := os.WriteFile(r.path(name), content, 0o644); err != nil {
			r.t.Fatal(err)
		}
		paths = append(paths, "/"+name)
	}
	return paths
}

// has reports whether a file exists in the root.
func (r *root) has(name string) bool {
	_, err := os.Lstat(r.path(name))
	return err == nil
}

// read returns the content of a file of the root.
func (r *root) read(name string) string {
	r.t.Helper()
	text, err := os.ReadFile(r.path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}
