package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// mount mounts a small file system for the data of the proxy: ext4 in a file. The mount is visible only to this process and its
// children, and ends with them.
func (s *soak) mount() error {
	if os.Getenv(apartVariable) == "" || os.Geteuid() != 0 {
		return errors.New("that takes root and a mount namespace")
	}
	megabytes := int64(s.many(1024+int(s.soak.Hours()*256), 96))
	image := filepath.Join(s.p.dir, "disk.img")
	f, err := os.Create(image)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(megabytes<<20), f.Close()); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, s.p.dir + "/disk"},
	} {
		if err := errors.Join(os.MkdirAll(s.p.dir+"/disk", 0o700), command(args...)); err != nil {
			return err
		}
	}
	s.disk = s.p.dir + "/disk"
	if err := command("mv", s.p.data, s.disk+"/data"); err != nil { // it has the tokens
		return err
	}
	return os.Symlink(s.disk+"/data", s.p.data)
}

func (s *soak) unmount() error {
	if s.disk == "" {
		return nil
	}
	s.p.kill()
	for range 100 { // files of killed programs are closed a moment later
		if command("umount", s.disk) == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("%s stays mounted", s.disk)
}

func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", args[0], err, out)
	}
	return nil
}

// fill fills the disk, and frees space again: stored packages are served meanwhile, and others afterwards.
func (s *soak) fill(ctx context.Context) (err error) {
	if s.disk == "" {
		defer s.during(nothing)()
		return nil
	}
	defer s.during(cold)()
	ballast := s.disk + "/ballast"
	f, err := os.Create(ballast)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(ballast)) }()
	var has unix.Statfs_t
	if err := unix.Statfs(s.disk, &has); err != nil {
		return err
	}
	for at, step := int64(0), int64(has.Bfree)*int64(has.Bsize); step >= 4<<10; { // ever smaller pieces until the disk is full
		if err := unix.Fallocate(int(f.Fd()), 0, at, step); err != nil {
			step /= 2
			continue
		}
		at += step
	}
	began := time.Now()
	err = s.until(ctx, s.hold+10*time.Second, func() error {
		name := moduleName("full", int(time.Now().UnixNano()), 64<<10, 1)
		t := &target{module: name, version: "1.0.0", token: s.p.tokens[0]}
		c := &conn{address: s.p.address, timeout: 30 * time.Second}
		defer c.close()
		var no *refused
		if err := t.install(ctx, c); !errors.As(err, &no) || no.status != http.StatusInsufficientStorage {
			return fmt.Errorf("a new module while the disk is full: %w; want it refused", err)
		}
		return nil
	})
	pause(ctx, s.hold-time.Since(began))
	return err
}
