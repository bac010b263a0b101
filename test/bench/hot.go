package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// The servers on the hot path.
const (
	serverProxy  = "modproxy"
	serverCache  = "nginx proxy_cache"
	serverDisk   = "nginx from disk"
	serverMemory = "net/http from memory"
)

// server is a server on the hot path.
type server struct {
	name, url string
	header    []string // names and values for every request
	pids      func() []int
}

// target is a document or a package that is requested.
type target struct {
	name        string
	module      module
	question    string
	coding      string // for Accept-Encoding
	connections int    // maximum; 0: that of the flag
	bytes       int
	servers     []*measured
}

// measured has the measurements of a server with one target, by turn.
type measured struct {
	server
	*target
	path  string // with the signature for this server
	turns []asked
	cpu   []time.Duration // of the server, for one request
	peak  int64           // in bytes; of the proxy only
}

// measureHot sends requests for every target to every server, in turns.
func (b *bench) measureHot(ctx context.Context, r *report) error {
	proxy, err := b.startBeside(ctx, serverProxy, withTokens+longFresh)
	if err != nil {
		return err
	}
	var answers []copied
	for range 2 { // the first answers depend on upstream
		if answers, err = b.copyAnswers(ctx, proxy, []module{listed, small, large, huge}); err != nil {
			return err
		}
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
		proxy,
		{serverCache, n.cached, proxy.header, func() []int { return family(n.ID()) }},
		{serverDisk, n.disk, proxy.header, func() []int { return family(n.ID()) }},
		{serverMemory, memoryURL, proxy.header, func() []int { return []int{os.Getpid()} }},
	}
	targets := append(targets(), &target{
		name: "huge package", module: huge, question: "package", coding: "identity", connections: 4,
	})
	b.up.reset()
	filled := time.Now()
	for _, t := range targets {
		if t.module == huge {
			if err := b.waitUntil(ctx, filled.Add(settled)); err != nil {
				return err
			}
		}
		if err := t.prepare(ctx, servers); err != nil {
			return err
		}
		if err := b.measureTarget(ctx, t); err != nil {
			return err
		}
		if b.profile != "" {
			if err := b.profileTarget(ctx, t.servers[0]); err != nil {
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

// settled is the age at which the proxy no longer hashes a package on disk for each request.
const settled = 62 * time.Second

func (b *bench) waitUntil(ctx context.Context, when time.Time) error {
	if left := time.Until(when); left > 0 {
		b.say("waiting for %v", left.Round(time.Second))
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// targets returns the targets of the hot path.
func targets() []*target {
	return []*target{
		{name: "versions", module: listed, question: "versions", coding: "identity"},
		{name: "versions, gzip", module: listed, question: "versions", coding: "gzip"}, // as clients request it
		{name: "download", module: small, question: "download", coding: "gzip"},
		{name: "small package", module: small, question: "package", coding: "identity"},
		{name: "large package", module: large, question: "package", coding: "identity"},
	}
}

// prepare checks that all servers give the same answer.
func (t *target) prepare(ctx context.Context, servers []server) error {
	var first answer
	for i, s := range servers {
		m, a, err := t.of(ctx, s)
		if err != nil {
			return err
		}
		if i == 0 {
			first = a
		}
		if a.status != first.status || a.coding != first.coding || !bytes.Equal(a.body, first.body) ||
			(a.location == "") != (first.location == "") {
			return fmt.Errorf("%s: %s answers otherwise than %s", m.path, s.name, servers[0].name)
		}
		if names := fieldNames(a.header); s.name == serverMemory && !slices.Equal(names, fieldNames(first.header)) {
			return fmt.Errorf("%s: %s has the header fields %q; want %q", m.path, s.name, names, fieldNames(first.header))
		}
		t.servers = append(t.servers, m)
	}
	t.bytes = len(first.body)
	return nil
}

func fieldNames(h http.Header) []string { return slices.Sorted(maps.Keys(h)) }

// of requests the target from a server once.
func (t *target) of(ctx context.Context, s server) (*measured, answer, error) {
	m := &measured{server: s, target: t, path: t.module.path(t.question)}
	if t.question == "package" {
		at, err := s.packagePath(ctx, t.module)
		if err != nil {
			return nil, answer{}, err
		}
		m.path, m.header = at, nil // clients send nothing else with the path
	}
	a, err := m.ask(ctx, m.url+m.path, t.coding)
	return m, a, err
}

func (b *bench) measureTarget(ctx context.Context, t *target) error {
	for round := range b.rounds {
		for _, m := range t.servers {
			pid := m.pids()[0]
			if m.server.name == serverProxy {
				rig.ResetPeak(pid)
			}
			if err := m.turn(ctx, b, b.duration); err != nil {
				return err
			}
			if m.server.name == serverProxy {
				m.peak = max(m.peak, peak(pid))
			}
			b.say("%s, %s, %d of %d: %.0f/s", t.name, m.server.name, round+1, b.rounds, m.turns[round].perSec)
		}
	}
	return nil
}

// turn sends requests to m as fast as it answers.
func (m *measured) turn(ctx context.Context, b *bench, d time.Duration) error {
	before := cpu(m.pids()...)
	a, err := b.wrk(ctx, m, d)
	if err != nil {
		return err
	}
	m.turns = append(m.turns, a)
	m.cpu = append(m.cpu, (cpu(m.pids()...)-before)/time.Duration(a.requests))
	return nil
}

// profileTarget records where the proxy spends processor time while m is measured.
func (b *bench) profileTarget(ctx context.Context, m *measured) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		b.say("no profile of %s: perf is not in PATH (Debian: apt-get install linux-perf)", m.target.name)
		return nil
	}
	if err := os.MkdirAll(b.profile, 0o755); err != nil {
		return err
	}
	file := filepath.Join(b.profile, strings.NewReplacer(" ", "-", ",", "").Replace(m.target.name))
	record := exec.CommandContext(ctx, perf, "record", "-q", "-g", "-F", "499", "-e", "cpu-clock",
		"-p", strconv.Itoa(m.pids()[0]), "-o", file+".perf", "--", "sleep", strconv.Itoa(int(b.duration.Seconds())))
	var out bytes.Buffer
	record.Stdout, record.Stderr = &out, &out
	if err := record.Start(); err != nil {
		return err
	}
	_, askErr := b.wrk(ctx, m, b.duration)
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
	b.say("profile of %s: %s.perf, %s.txt", m.target.name, file, file)
	return os.WriteFile(file+".txt", text, 0o644)
}
