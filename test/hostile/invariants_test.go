//go:build linux

package hostile_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"

	"golang.org/x/sys/unix"
)

// maxResident bounds the memory of a program over a whole test, in KiB.
const maxResident = 512 << 10

// memoryIsBounded reports whether the memory of the program under test is checked. The race detector needs several times as much.
var memoryIsBounded = sync.OnceValue(func() bool {
	info, err := buildinfo.ReadFile(os.Getenv(rig.ProgramVariable))
	return err != nil || !slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// check checks what must hold after every case.
func (p *proxy) check(t testing.TB) {
	t.Helper()
	world.touches.check(t)
	world.arguments.check(t)
	ready := p.ask(http.MethodGet, "/-/readyz")
	if ready.Status != http.StatusOK || rig.Late(ready.Took, 10*time.Second) {
		t.Errorf("afterwards: /-/readyz answered %d after %v", ready.Status, ready.Took)
	}
}

// checkAll is check, with checks of state that only grows.
func (p *proxy) checkAll(t testing.TB) {
	t.Helper()
	p.check(t)
	if code := p.status("/-/healthz"); code != http.StatusOK {
		t.Errorf("afterwards: /-/healthz answered %d", code)
	}
	metrics := p.ask(http.MethodGet, "/-/metrics")
	if metrics.Status != http.StatusOK {
		t.Errorf("afterwards: /-/metrics answered %d", metrics.Status)
	}
}

// encodings are encoded forms of the secrets, by secret.
var encodings = sync.OnceValue(func() map[string][][]byte {
	all := map[string][][]byte{}
	for _, secret := range secrets {
		all[secret] = [][]byte{[]byte(secret)}
		for _, user := range []string{"", "robot:", "u:"} { // for HTTP basic authentication
			plain := []byte(user + secret)
			all[secret] = append(all[secret], base64.StdEncoding.AppendEncode(nil, plain[:len(plain)/3*3]))
		}
	}
	return all
})

// contains returns the secret that data contains, or "".
func contains(data []byte) string {
	for secret, encoded := range encodings() {
		for _, e := range encoded {
			if bytes.Contains(data, e) {
				return secret
			}
		}
	}
	return ""
}

// confides returns the secret of any program, or of this program, that data contains, or "".
func (p *proxy) confides(data []byte) string {
	for _, secret := range p.unwritten {
		if bytes.Contains(data, []byte(secret)) {
			return secret
		}
	}
	return contains(data)
}

// checkLog checks the whole log.
func (p *proxy) checkLog() {
	p.t.Helper()
	log := p.log()
	if secret := p.confides(log); secret != "" {
		at := bytes.Index(log, []byte(secret))
		p.t.Errorf("the log has the secret %s: %.500s", secret, log[max(0, at-200):])
	}
	requests := 0
	for line := range bytes.Lines(log) {
		var entry struct{ Message, Error string }
		if err := json.Unmarshal(line, &entry); err != nil {
			p.t.Errorf("a line of the log is not JSON: %.2000q", line)
			break // the following lines continue it
		}
		if entry.Message == "request" {
			requests++
		}
		if strings.Contains(entry.Error, "panic") {
			p.t.Errorf("a panic: %.2000s", line)
		}
	}
	for _, sign := range []string{"panic:", "panic serving", "fatal error", "DATA RACE", "goroutine "} {
		if i := bytes.Index(log, []byte(sign)); i >= 0 {
			p.t.Errorf("the log has %q: %.3000s", sign, log[max(0, i-200):])
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if requests != p.asked {
		p.t.Errorf("%d lines in the log for %d requests", requests, p.asked)
	}
}

// checkData looks for secrets in all files of the data directory.
func (p *proxy) checkData() {
	p.t.Helper()
	err := filepath.WalkDir(p.data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if secret := p.confides(data); secret != "" {
			p.t.Errorf("%s has the secret %s", name, secret)
		}
		return err
	})
	if err != nil {
		p.t.Error(err)
	}
}

// counted is the number of requests that modproxy counted.
func (p *proxy) counted() int {
	total := 0
	for line := range strings.Lines(string(p.ask(http.MethodGet, "/-/metrics").Body)) {
		if strings.HasPrefix(line, "modproxy_requests_total{") {
			n, _ := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]))
			total += n
		}
	}
	return total
}

// usage is the number of resources of a program.
type usage struct{ files, goroutines, children int }

func (u usage) within(base usage) bool {
	more := func(n int) int { return n + n/10 + 4 }
	return u.files <= more(base.files) && u.goroutines <= more(base.goroutines) && u.children <= base.children
}

// files returns the targets of the program's file descriptors.
func (p *proxy) files() (all []string) {
	dir := fmt.Sprintf("/proc/%d/fd", p.server.ID())
	entries, err := os.ReadDir(dir)
	if err != nil {
		p.t.Error(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			all = append(all, to)
		}
	}
	return all
}

func (p *proxy) usage() usage {
	u := usage{files: len(p.files())}
	for line := range strings.Lines(string(p.ask(http.MethodGet, "/-/metrics").Body)) {
		if value, ok := strings.CutPrefix(line, "go_goroutines "); ok {
			u.goroutines, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	u.children = len(processes())
	return u
}

// settled returns the usage once it is down to base, or when it no longer goes down.
func (p *proxy) settled(base usage) usage {
	p.t.Helper()
	u := p.usage()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err := world.hangUp(); err != nil {
			p.t.Error(err)
		}
		last := u
		u = p.usage()
		if base == (usage{}) && u == last || u.within(base) {
			break
		}
	}
	return u
}

func (p *proxy) checkUsage() {
	p.t.Helper()
	if u := p.settled(p.before); !u.within(p.before) {
		p.t.Errorf("modproxy holds %+v, and at its start held %+v\n%v", u, p.before, processes())
	}
	if kib := p.resident(); kib > maxResident && memoryIsBounded() {
		p.t.Errorf("modproxy took %d MiB of memory; want at most %d", kib>>10, maxResident>>10)
	}
}

// resident is the largest memory size of the program so far, in KiB.
func (p *proxy) resident() int { return mostResident(fmt.Sprintf("/proc/%d", p.server.ID())) }

// mostResident reads it from the directory of a process in /proc; 0 if the process has ended.
func mostResident(dir string) int {
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			return kib
		}
	}
	return 0
}

type process struct {
	pid       int
	arguments string
}

// running are the ids of the programs that should run.
var running = map[int]bool{}

// ofGit matches git and the programs that it starts, as /proc names them.
var ofGit = regexp.MustCompile(`\((git[^)]*|ssh[^)]*|sh)\)`)

// processes lists other processes in the world. This process is the first of its namespace and reaps orphans.
func processes() (all []process) {
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		pid, _ := strconv.Atoi(filepath.Base(name))
		stat, err := os.ReadFile(filepath.Join(name, "stat"))
		if err != nil || running[pid] || pid == os.Getpid() {
			continue // it has ended, or belongs to the test
		}
		arguments, _ := os.ReadFile(filepath.Join(name, "cmdline"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == "1" && ofGit.Match(stat) {
			unix.Wait4(pid, nil, unix.WNOHANG, nil)
			continue
		}
		all = append(all, process{pid, string(arguments)})
	}
	return all
}

// arguments watches the arguments of all processes for secrets, and the memory of git processes.
type arguments struct {
	mu   sync.Mutex
	seen []string
	git  int // largest memory of one git process, in KiB
}

func (a *arguments) watch() {
	pause := 2 * time.Millisecond
	if !rig.Long() {
		pause = 8 * time.Millisecond
	}
	for ; ; time.Sleep(pause) {
		proc, err := os.Open("/proc")
		if err != nil {
			continue
		}
		names, _ := proc.Readdirnames(0)
		proc.Close()
		for _, name := range names {
			if name[0] < '0' || name[0] > '9' {
				continue
			}
			name = "/proc/" + name + "/cmdline"
			data, err := os.ReadFile(name)
			if err != nil {
				continue
			}
			if secret := contains(data); secret != "" {
				a.mu.Lock()
				a.seen = append(a.seen, fmt.Sprintf("%q has the secret %s", data, secret))
				a.mu.Unlock()
			}
			if bytes.HasPrefix(data, []byte("git\x00")) || bytes.Contains(data, []byte("/git\x00")) {
				kib := mostResident(filepath.Dir(name))
				a.mu.Lock()
				a.git = max(a.git, kib)
				a.mu.Unlock()
			}
		}
	}
}

// mostGit is the largest memory of one git process since the last call, in MiB.
func (a *arguments) mostGit() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	most := a.git
	a.git = 0
	return most >> 10
}

func (a *arguments) check(t testing.TB) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.seen {
		t.Errorf("the arguments of a process: %s", line)
	}
	a.seen = nil
}
