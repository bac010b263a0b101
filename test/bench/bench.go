package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// bench is one run with everything that it has started.
type bench struct {
	*settings
	progress io.Writer
	scratch  string // directories of this run, below the configured ones
	data     string

	modproxy, nginxProgram, wrkProgram string
	clients                            []client

	up       *upstream
	proxy    *rig.Process // nil if none is running
	proxyURL string
	proxyDir string
	servers  []*rig.Process
}

// A client is a program that installs modules.
type client struct{ name, path string }

// newBench finds the needed programs and starts upstream.
func newBench(ctx context.Context, s *settings, progress io.Writer) (_ *bench, err error) {
	b := &bench{settings: s, progress: progress}
	if err := b.find(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	for _, dir := range []struct {
		below string
		to    *string
	}{{s.scratch, &b.scratch}, {s.data, &b.data}} {
		if *dir.to, err = os.MkdirTemp(dir.below, "modproxy-bench-"); err != nil {
			return nil, err
		}
	}
	if b.modproxy = s.proxy; b.modproxy == "" {
		b.say("building modproxy")
		if b.modproxy, err = rig.Program(ctx, b.data); err != nil {
			return nil, err
		}
	}
	b.say("making repositories")
	if b.up, err = newUpstream(ctx, filepath.Join(b.data, "git"), b.parts); err != nil {
		return nil, err
	}
	return b, nil
}

// find finds the programs. Its error says how to install a missing one.
func (b *bench) find() error {
	var missing, packages []string
	look := func(name, pkg string) string {
		path, err := exec.LookPath(name)
		if err != nil {
			missing = append(missing, name)
			if pkg != "" {
				packages = append(packages, pkg)
			}
		}
		return path
	}
	look("git", "git")
	chosen := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(b.parts, part) })
	}
	if chosen("client", "providers", "hot") {
		if b.nginxProgram, _ = exec.LookPath("/usr/sbin/nginx"); b.nginxProgram == "" {
			b.nginxProgram = look("nginx", "nginx-light")
		}
	}
	if chosen("hot", "pairs") {
		b.wrkProgram = look("wrk", "wrk")
	}
	if chosen("client", "mirror", "providers") {
		for _, tool := range b.tools {
			path, err := rig.FindClient(tool)
			if err != nil {
				missing = append(missing, tool)
			}
			b.clients = append(b.clients, client{filepath.Base(tool), path})
		}
	}
	if len(missing) == 0 {
		return nil
	}
	err := fmt.Errorf("not found: %s", strings.Join(missing, ", "))
	if len(packages) > 0 {
		err = fmt.Errorf("%w\nhint: on Debian, apt-get install %s", err, strings.Join(packages, " "))
	}
	if slices.Contains(missing, "tofu") {
		err = fmt.Errorf("%w\nhint: tools/build-tofu.sh builds tofu", err)
	}
	return misuse{err}
}

var started = time.Now()

// say reports progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, "%4.0fs "+format+"\n", append([]any{time.Since(started).Seconds()}, args...)...)
}

// close ends all processes and removes all files.
func (b *bench) close() error {
	errs := []error{b.stopProxy()}
	for _, p := range b.servers {
		errs = append(errs, p.Stop())
	}
	if b.up != nil {
		errs = append(errs, b.up.close())
	}
	for _, dir := range []string{b.scratch, b.data} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}
