package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// spent has the resources that a proxy used while a client installed modules.
type spent struct {
	cpu   time.Duration // including its children
	own   int64         // its largest memory, in bytes
	whole int64         // the largest memory with its children, as observed
}

const sampleEvery = 20 * time.Millisecond

// watch begins to measure a process; stop returns the result.
func watch(pid int) (stop func() spent) { return watchFor(pid, resident) }

// watchFor is watch with another measure of memory.
func watchFor(pid int, memory func(pid int) int64) (stop func() spent) {
	rig.ResetPeak(pid)
	before := rig.Ticks(pid, 4)
	ended := make(chan struct{})
	var s spent
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			s.whole = max(s.whole, memory(pid))
			select {
			case <-tick.C:
			case <-ended:
				return
			}
		}
	})
	return func() spent {
		close(ended)
		watching.Wait()
		s.cpu, s.own = rig.Ticks(pid, 4)-before, peak(pid)
		return s
	}
}

// resident is the memory of a process and its descendants, in bytes. Shared memory counts for each.
func resident(pid int) int64 {
	var pages int64
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ = strconv.ParseInt(fields[1], 10, 64)
	}
	sum := pages * int64(os.Getpagesize())
	for _, child := range rig.Children(pid) {
		sum += resident(child)
	}
	return sum
}

// counting counts the processes of git.
type counting struct {
	env  []string // for programs that run git
	file string   // has a line for each process
}

// countGit makes a directory with a script for every program of git, to be put before git's own directory. The scripts make git slower,
// so nothing else is measured with them.
func countGit(ctx context.Context, dir string) (*counting, error) {
	out, err := git(ctx, nil, "--exec-path")
	if err != nil {
		return nil, err
	}
	programs := strings.TrimSpace(string(out))
	entries, err := os.ReadDir(programs)
	if err != nil {
		return nil, err
	}
	c := &counting{env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}, file: filepath.Join(dir, "counted")}
	script := fmt.Sprintf("#!/bin/sh\necho >>'%s'\nGIT_EXEC_PATH='%s' exec '%s'/\"${0##*/}\" \"$@\"\n", c.file, dir, programs)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "git") && !e.IsDir() {
			if err := os.WriteFile(filepath.Join(dir, e.Name()), []byte(script), 0o755); err != nil {
				return nil, err
			}
		}
	}
	return c, nil
}

// count returns the number of processes since the last call.
func (c *counting) count() (int, error) {
	text, err := os.ReadFile(c.file)
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return bytes.Count(text, []byte{'\n'}), os.Remove(c.file)
}

// countProcesses installs once more in every way through a cold proxy, and counts the git processes of the proxy.
func (b *bench) countProcesses(ctx context.Context, c client, ways []*way) error {
	dir, err := os.MkdirTemp(b.data, "counting-")
	if err != nil {
		return err
	}
	counting, err := countGit(ctx, dir)
	if err != nil {
		return err
	}
	for _, w := range ways {
		if !w.cold {
			continue
		}
		if err := b.startProxy(ctx, slices.Concat(w.env, counting.env)...); err != nil {
			return err
		}
		if _, err := counting.count(); err != nil { // forget earlier processes
			return err
		}
		w.registry = b.proxyURL + "/" + registryHost + "/v1/modules/"
		if _, _, err := b.install(ctx, c, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		if err := b.stopProxy(); err != nil { // after its remaining work
			return err
		}
		if w.processes, err = counting.count(); err != nil {
			return err
		}
		b.say("%s get, %s: %d processes of git", c.name, w.name, w.processes)
	}
	return nil
}
