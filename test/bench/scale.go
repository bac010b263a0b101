package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

const (
	scaleAsked  = 500       // requests of a kind; the mean counts
	scaleFloor  = 0.05      // seconds: shorter times are not compared, because the clock of CPU time is coarse
	scaleMemory = 8 << 20   // bytes, likewise
	scaleGrowth = 11.       // allowed growth for ten times as many versions
	idleTarget  = 50 << 20  // bytes at the smallest number of versions
	readyTarget = 5.        // seconds, up to 100,000 versions
	verbTarget  = 150 << 20 // bytes of the server during a verb, up to 100,000 versions
)

// Rows that have a target.
const (
	rowReady  = "start to ready"
	rowIdle   = "memory when idle"
	rowServer = ", memory of the server without mapped files"
)

// scaleReport has the costs of stored versions.
type scaleReport struct {
	Versions []int       `json:"versions"`
	Packages []int       `json:"packages"` // with different content
	Rows     []*scaleRow `json:"rows"`
	Goals    []goal      `json:"goals"`
}

// scaleRow is one measure for each number of versions.
type scaleRow struct {
	Measure string    `json:"measure"`
	Unit    string    `json:"unit"` // s, cpu s, cpu for one request, bytes or MB/s
	Values  []float64 `json:"values"`
	Growth  []float64 `json:"growth"` // from one to the next
}

// row returns the row of a measure. It creates the row at the first number of versions.
func (r *scaleReport) row(measure, unit string) *scaleRow {
	for _, row := range r.Rows {
		if row.Measure == measure && row.Unit == unit {
			return row
		}
	}
	row := &scaleRow{Measure: measure, Unit: unit}
	r.Rows = append(r.Rows, row)
	return row
}

func (r *scaleReport) add(measure, unit string, value float64) {
	row := r.row(measure, unit)
	floor := map[string]float64{"s": scaleFloor, "cpu s": scaleFloor, "bytes": scaleMemory}[unit]
	if n := len(row.Values); n > 0 {
		row.Growth = append(row.Growth, max(value, floor)/max(row.Values[n-1], floor))
	}
	row.Values = append(row.Values, value)
}

// measureScale measures a proxy with few versions, with ten times as many, and so on.
func (b *bench) measureScale(ctx context.Context, r *report) error {
	out := &scaleReport{}
	r.Scale = out
	for n := 1000; n <= b.versions; n *= 10 {
		out.Versions, out.Packages = append(out.Versions, n), append(out.Packages, min(n, scaleBlobs))
		b.say("making %d versions", n)
		s, err := b.makeShelf(ctx, n)
		if err == nil {
			err = b.measureShelf(ctx, out, s)
		}
		if err != nil {
			return fmt.Errorf("%d versions: %w", n, err)
		}
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
	}
	out.judge()
	return nil
}

func (b *bench) measureShelf(ctx context.Context, out *scaleReport, s *shelf) (err error) {
	began := time.Now()
	p, err := b.runProxy(s.dir, "offline: true\n"+longFresh)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	url, err := p.URL(ctx)
	for more := s.versions / 100_000; err != nil && more > 0; more-- { // it may take longer than other verbs
		url, err = p.URL(ctx)
	}
	if err != nil {
		return err
	}
	out.add(rowReady, "s", time.Since(began).Seconds())
	out.add(rowReady, "cpu s", cpu(p.ID()).Seconds())
	out.add("memory when ready", "bytes", float64(resident(p.ID())))
	b.say("%d versions: ready after %v", s.versions, time.Since(began).Round(time.Millisecond))
	if err := pauseFor(ctx, b.idle); err != nil {
		return err
	}
	out.add(rowIdle, "bytes", float64(resident(p.ID())))
	out.add(rowIdle+", without mapped files", "bytes", float64(private(p.ID())))
	out.add("work until idle", "cpu s", cpu(p.ID()).Seconds())
	if err := b.askShelf(ctx, out, s, p, url); err != nil {
		return err
	}
	if err := b.verbOn(ctx, out, s, p, "ls", fmt.Sprintf("%d versions;", s.versions), "ls"); err != nil {
		return err
	}
	if err := b.verbOn(ctx, out, s, p, "verify", "damage: 0", "verify"); err != nil {
		return err
	}
	if err := b.verbOn(ctx, out, s, p, "verify --read-data", "damage: 0", "verify", "--read-data"); err != nil {
		return err
	}
	seconds := out.row("verify --read-data", "s").Values
	out.add("verify --read-data", "MB/s", float64(s.bytes)/1e6/seconds[len(seconds)-1])
	if err := p.Stop(); err != nil {
		return err
	}
	// Offline, nothing is removed.
	if _, err := b.writeConfig(s.dir, ""); err != nil {
		return err
	}
	return b.verbOn(ctx, out, s, nil, "gc to half", "packages over the bound", "gc", "--max-size", fmt.Sprintf("%dB", s.bytes/2))
}

// askShelf requests versions of modules, a page of the list, and searches from a proxy.
func (b *bench) askShelf(ctx context.Context, out *scaleReport, s *shelf, p *rig.Process, url string) error {
	base := url + "/" + registryHost + "/v1/modules"
	began := time.Now()
	for { // all modules are read for it; meanwhile clients are told to retry
		a := rig.Get(ctx, base)
		if a.Err == nil && a.Status == http.StatusOK {
			break
		}
		if a.Status != http.StatusServiceUnavailable || time.Since(began) > time.Minute {
			return fmt.Errorf("%s: %v", base, a)
		}
	}
	out.add("first list of modules", "s", time.Since(began).Seconds())
	modules := s.versions / versionsOfModule
	for _, q := range []struct {
		what string
		path func(i int) string
	}{
		{"versions of a module", func(i int) string {
			return "/" + strings.TrimPrefix(scaleModule(i).String(), registryHost+"/") + "/versions"
		}},
		{"list of modules, a page", func(i int) string { return fmt.Sprintf("?offset=%d", 15*(i%5)) }},
		{"search, the last module", func(int) string { return "/search?q=" + scaleModule(modules-1).Name }},
	} {
		begin := cpu(p.ID())
		n := scaleAsked
		for i := range n {
			address := base + q.path(i*7919%modules)
			if a, err := ask(ctx, address, "identity"); err != nil {
				return err
			} else if a.status != http.StatusOK || len(a.body) == 0 {
				return fmt.Errorf("%s: %d", address, a.status)
			}
		}
		out.add(q.what, "cpu", (cpu(p.ID())-begin).Seconds()/float64(n))
	}
	return nil
}

// verbOn measures a verb of modproxy, which must print want, and the memory of a serving proxy meanwhile.
func (b *bench) verbOn(ctx context.Context, out *scaleReport, s *shelf, p *rig.Process, name, want string, args ...string) error {
	b.say("%d versions: %s", s.versions, name)
	cmd := exec.CommandContext(ctx, b.modproxy, append(args, "--config", filepath.Join(s.dir, "modproxy.yaml"))...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, b.proxyEnv...)
	said := &tail{}
	cmd.Stdout, cmd.Stderr = said, said
	var stop func() spent
	if p != nil {
		stop = watchFor(p.ID(), private)
	}
	began := time.Now()
	err := cmd.Start()
	if err != nil {
		return err
	}
	itself := watchFor(cmd.Process.Pid, peak)
	err = cmd.Wait()
	took, memory := time.Since(began), itself().whole
	if err == nil && !strings.Contains(string(said.text), want) {
		err = fmt.Errorf("want %q", want)
	}
	if err != nil {
		return fmt.Errorf("modproxy %s: %w\n%s", name, err, said.text)
	}
	work := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	out.add(name, "s", took.Seconds())
	if stop != nil {
		used := stop()
		work += used.cpu
		out.add(name+rowServer, "bytes", float64(used.whole))
	}
	out.add(name, "cpu s", work.Seconds())
	out.add(name+", its memory", "bytes", float64(memory))
	return nil
}

// tail is the last part of what was written.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-4096):]
	return len(p), nil
}

func pauseFor(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
