//go:build linux

package hostile_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// inWorlds runs the tests in worlds beside each other, which know nothing of one
// another, because much of the time of most tests is waiting. What takes its full
// length has one world for itself. dir is for what the worlds need.
func inWorlds(dir string, env []string) error {
	shares, err := shareOut()
	if err != nil {
		return err
	}
	failed := make([]error, len(shares))
	var group sync.WaitGroup
	var printing sync.Mutex
	for i, args := range shares {
		temp := filepath.Join(dir, fmt.Sprint("world", i))
		if err := os.Mkdir(temp, 0o700); err != nil {
			return err
		}
		env := append(env[:len(env):len(env)], "TMPDIR="+temp)
		group.Go(func() {
			if len(shares) == 1 {
				failed[i] = runInNamespaces(args, env, os.Stdout)
				return
			}
			var said bytes.Buffer
			failed[i] = runInNamespaces(args, env, &said)
			printing.Lock()
			defer printing.Unlock()
			os.Stdout.Write(said.Bytes())
		})
	}
	group.Wait()
	return cmp.Or(failed...)
}

// shareOut is the arguments for each world.
func shareOut() ([][]string, error) {
	all := os.Args[1:]
	value := func(name string) string { return flag.Lookup("test." + name).Value.String() }
	alone := long() || strings.Contains(value("run"), "/")
	for _, name := range []string{"coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace"} {
		alone = alone || value(name) != "" // which would be one file for all
	}
	if alone {
		return [][]string{all}, nil
	}
	list, err := exec.Command("/proc/self/exe", "-test.list="+cmp.Or(value("run"), ".")).Output()
	if err != nil {
		return nil, fmt.Errorf("the list of tests: %w", err)
	}
	tests := strings.Fields(string(list))
	worlds := max(1, min(len(tests), runtime.NumCPU()+1))
	shares := make([][]string, worlds)
	for i := range shares {
		var own []string
		for n := i; n < len(tests); n += worlds {
			own = append(own, tests[n])
		}
		shares[i] = append(all[:len(all):len(all)], "-test.run=^("+strings.Join(own, "|")+")$")
		if i > 0 {
			shares[i] = append(shares[i], "-test.testlogfile=") // one tells what the result hangs on
		}
	}
	return shares, nil
}

// runInNamespaces runs this program again, as the first process of its namespaces:
// when it ends, whatever it has started ends with it.
func runInNamespaces(args, env []string, out io.Writer) error {
	runtime.LockOSThread() // the death signal is that of the thread
	const own = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	attempts := []*syscall.SysProcAttr{
		{Cloneflags: own, Pdeathsig: syscall.SIGKILL},
		{
			Cloneflags: own | syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	}
	var failed []string
	for _, attr := range attempts {
		self := exec.Command("/proc/self/exe", args...)
		self.Env, self.Stdin, self.Stdout, self.Stderr = env, os.Stdin, out, out
		self.SysProcAttr = attr
		if err := self.Start(); err != nil {
			failed = append(failed, err.Error())
			continue
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
		go func() {
			for s := range signals {
				self.Process.Signal(s)
			}
		}()
		return self.Wait()
	}
	return fmt.Errorf("%w: %s", errNoWorld, strings.Join(failed, ", "))
}
