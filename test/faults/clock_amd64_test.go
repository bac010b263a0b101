//go:build linux

package faults_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// clock is the clock of a program. The code for clock_gettime that the kernel maps into the program is replaced by code that adds
// offsets. Programs in Go read the time only there. So the wall clock jumps for the running program only, and time passes instantly.
type clock struct {
	t       *testing.T
	wall    time.Duration // added to the wall clock
	passed  time.Duration // added to all clocks
	memory  *os.File      // of the program
	offsets int64         // their address in the memory
}

// getTime is clock_gettime of a C program:
//
//	mov  edi, edi           the clock
//	mov  eax, 228           clock_gettime
//	syscall
//	cmp  edi, 1             CLOCK_REALTIME is 0, and CLOCK_MONOTONIC 1
//	ja   end
//	lea  rcx, [rip+11]      offsets
//	mov  rcx, [rcx+rdi*8]
//	add  [rsi], rcx         tv_sec
//	end: ret
//	nop, nop, nop
//	offsets: 0, 0
var getTime = []byte("\x89\xff" + "\xb8\xe4\x00\x00\x00" + "\x0f\x05" + "\x83\xff\x01" + "\x77\x0e" +
	"\x48\x8d\x0d\x0b\x00\x00\x00" + "\x48\x8b\x0c\xf9" + "\x48\x01\x0e" + "\xc3" + "\x90\x90\x90" +
	"\x00\x00\x00\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00")

// offsetsAt is the position of the offsets in getTime.
const offsetsAt = 32

// newClock gives the programs of a rig a clock, and an upstream without a certificate, because a certificate would be invalid at most
// times.
func newClock(r *proxy) *clock {
	r.t.Helper()
	plain := httptest.NewServer(r.upstream.Config.Handler)
	r.t.Cleanup(plain.Close)
	config, err := os.ReadFile(r.path("modproxy.yaml"))
	if err == nil {
		config = bytes.ReplaceAll(config, []byte(r.upstream.URL), []byte(plain.URL))
		err = os.WriteFile(r.path("modproxy.yaml"), config, 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.upstream.Close()
	r.upstream = plain
	c := &clock{t: r.t}
	r.starter = c.start
	return c
}

// start starts a program, and replaces the code before its first instruction.
func (c *clock) start(cmd *exec.Cmd) error {
	runtime.LockOSThread() // tracing is bound to a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return fmt.Errorf("it does not stop before its first instruction: %v, %#x", err, status)
	}
	if err := c.replace(pid); err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

func (c *clock) replace(pid int) error {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x ", &from, &to); err != nil {
				return err
			}
		}
	}
	if c.memory != nil {
		c.memory.Close()
	}
	if c.memory, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0); err != nil {
		return err
	}
	code, err := io.ReadAll(io.NewSectionReader(c.memory, from, to-from))
	if err != nil {
		return err
	}
	file, err := elf.NewFile(bytes.NewReader(code))
	if err != nil {
		return err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name == "__vdso_clock_gettime" && s.Size >= uint64(len(getTime)) {
			c.offsets = from + int64(s.Value) + offsetsAt
			if _, err := c.memory.WriteAt(getTime, from+int64(s.Value)); err != nil {
				return err
			}
			return c.write()
		}
	}
	return fmt.Errorf("the system maps no clock_gettime of %d bytes into programs", len(getTime))
}

func (c *clock) write() error {
	both := binary.LittleEndian.AppendUint64(nil, uint64((c.wall+c.passed)/time.Second))
	both = binary.LittleEndian.AppendUint64(both, uint64(c.passed/time.Second))
	_, err := c.memory.WriteAt(both, c.offsets)
	return err
}

// set sets the offset of the wall clock, in whole seconds.
func (c *clock) set(offset time.Duration) {
	c.t.Helper()
	c.wall = offset
	if err := c.write(); err != nil {
		c.t.Fatal(err)
	}
}

// pass advances all clocks, in whole seconds.
func (c *clock) pass(d time.Duration) {
	c.t.Helper()
	c.passed += d
	if err := c.write(); err != nil {
		c.t.Fatal(err)
	}
}
