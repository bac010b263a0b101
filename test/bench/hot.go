package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The servers on the hot path.
const (
	serverProxy  = "modproxy"
	serverCache  = "nginx proxy_cache"
	serverDisk   = "nginx from disk"
	serverMemory = "net/http from memory"
)

// server answers what is asked.
type server struct {
	name, url string
	pids      func() []int
}

// target is what is asked for.
type target struct {
	name, path string
	coding     string // what Accept-Encoding says
	bytes      int
	servers    []*measured
}

// measured is a server at one target, turn for turn.
type measured struct {
	server
	turns []asked
	cpu   []time.Duration // of the server for one request
	peak  int64           // bytes; of the proxy only
}

// measureHot asks every server for every target, in turns.
func (b *bench) measureHot(ctx context.Context, r *report) error {
	if b.proxy == nil {
		if err := b.startProxy(ctx); err != nil {
			return err
		}
	}
	modules := []module{listed, small, large}
	answers, err := b.copyAnswers(ctx, b.proxyURL, modules)
	if err != nil {
		return err
	}
	n, err := b.startNginx(ctx, answers)
	if err != nil {
		return err
	}
	memory, memoryURL, err := inMemory(answers)
	if err != nil {
		return err
	}
	defer memory.Close()
	servers := []server{
		{serverProxy, b.proxyURL, func() []int { return family(b.proxy.ID()) }},
		{serverCache, n.cached, func() []int { return family(n.ID()) }},
		{serverDisk, n.disk, func() []int { return family(n.ID()) }},
		{serverMemory, memoryURL, func() []int { return []int{os.Getpid()} }},
	}
	targets := targets()
	b.up.reset()
	for _, t := range targets {
		if err := t.prepare(ctx, servers); err != nil {
			return err
		}
		if err := b.measureTarget(ctx, t); err != nil {
			return err
		}
		if b.profile != "" {
			if err := b.profileTarget(ctx, t, servers[0]); err != nil {
				return err
			}
		}
	}
	if n := b.up.count(); len(n) > 0 {
		return fmt.Errorf("upstream was asked by a warm proxy: %v", n)
	}
	r.addHot(b, targets)
	return nil
}

// targets returns what is asked for.
func targets() []*target {
	return []*target{
		{name: "versions", path: listed.path("versions"), coding: "identity"},
		{name: "versions, gzip", path: listed.path("versions"), coding: "gzip"}, // as the clients want it
		{name: "download", path: small.path("download"), coding: "gzip"},
		{name: "small package", path: small.path("package"), coding: "identity"},
		{name: "large package", path: large.path("package"), coding: "identity"},
	}
}

// prepare holds the servers to the same answer.
func (t *target) prepare(ctx context.Context, servers []server) error {
	var first answer
	for i, s := range servers {
		a, err := ask(ctx, s.url+t.path, t.coding)
		if err != nil {
			return err
		}
		if i == 0 {
			first = a
		}
		if a.status != first.status || a.coding != first.coding || !bytes.Equal(a.body, first.body) || (a.location == "") != (first.location == "") {
			return fmt.Errorf("%s: %s answers otherwise than %s", t.path, s.name, servers[0].name)
		}
		t.servers = append(t.servers, &measured{server: s})
	}
	t.bytes = len(first.body)
	return nil
}

func (b *bench) measureTarget(ctx context.Context, t *target) error {
	pid := b.proxy.ID()
	for round := range b.rounds {
		for _, m := range t.servers {
			if m.name == serverProxy {
				resetPeak(pid)
			}
			if err := m.turn(ctx, b, t, b.duration); err != nil {
				return err
			}
			if m.name == serverProxy {
				m.peak = max(m.peak, peak(pid))
			}
			b.say("%s, %s, %d of %d: %.0f/s", t.name, m.name, round+1, b.rounds, m.turns[round].perSec)
		}
	}
	return nil
}

// turn asks m for t as fast as it answers.
func (m *measured) turn(ctx context.Context, b *bench, t *target, d time.Duration) error {
	before := cpu(m.pids()...)
	a, err := b.wrk(ctx, m.url+t.path, t.coding, d)
	if err != nil {
		return err
	}
	m.turns = append(m.turns, a)
	m.cpu = append(m.cpu, (cpu(m.pids()...)-before)/time.Duration(a.requests))
	return nil
}

// profileTarget records where the proxy's processor time goes while t is asked.
func (b *bench) profileTarget(ctx context.Context, t *target, s server) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.say("no profile of %s: perf is not in PATH (Debian: apt-get install linux-perf)", t.name)
		return nil
	}
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return err
	}
	file := filepath.Join(b.profile, strings.NewReplacer(" ", "-", ",", "").Replace(t.name))
	record := exec.CommandContext(ctx, perf, "record", "-q", "-g", "-F", "499", "-e", "cpu-clock",
		"-p", strconv.Itoa(s.pids()[0]), "-o", file+".perf", "--", "sleep", strconv.Itoa(int(b.duration.Seconds())))
	var out bytes.Buffer
	record.Stdout, record.Stderr = &out, &out
	if err := record.Start(); err != nil {
		return err
	}
	_, askErr := b.wrk(ctx, s.url+t.path, t.coding, b.duration)
	if err := record.Wait(); err != nil {
		return fmt.Errorf("perf record: %w\n%s", err, out.Bytes())
	}
	if askErr != nil {
		return askErr
	}
	text, err := exec.CommandContext(ctx, perf, "report", "--stdio", "--no-children", "-g", "none", "-i", file+".perf").Output()
	if err != nil {
		return fmt.Errorf("perf report: %w", err)
	}
	b.say("profile of %s: %s.perf, %s.txt", t.name, file, file)
	return os.WriteFile(file+".txt", text, 0o644)
}
