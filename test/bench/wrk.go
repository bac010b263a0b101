package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// asked is the result of wrk for one server in one turn.
type asked struct {
	requests int
	perSec   float64
	p50, p99 time.Duration
}

// wrk requests the target of m as fast as it is answered.
func (b *bench) wrk(ctx context.Context, m *measured, d time.Duration) (asked, error) {
	ctx, cancel := context.WithTimeout(ctx, d+20*time.Second)
	defer cancel()
	connections := b.connections
	if m.connections > 0 {
		connections = min(connections, m.connections)
	}
	args := []string{"-t1", "-c" + strconv.Itoa(connections), "-d" + strconv.Itoa(int(d.Seconds())) + "s",
		"--timeout", "10s", "--latency", "-H", "Accept-Encoding: " + m.coding}
	for i := 0; i+1 < len(m.header); i += 2 {
		args = append(args, "-H", m.header[i]+": "+m.header[i+1])
	}
	url := m.url + m.path
	cmd := exec.CommandContext(ctx, b.wrkProgram, append(args, url)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return asked{}, fmt.Errorf("wrk %s: %w\n%s", url, err, out)
	}
	a, err := parseWrk(string(out))
	if err != nil {
		return asked{}, fmt.Errorf("wrk %s: %w\n%s", url, err, out)
	}
	return a, nil
}

// parseWrk reads the output of wrk. Bad or missing answers are an error.
func parseWrk(text string) (a asked, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch {
		case strings.HasPrefix(line, "  Socket errors:"), strings.HasPrefix(line, "  Non-2xx"):
			return a, fmt.Errorf("not every request was answered well: %s", strings.TrimSpace(line))
		case fields[0] == "50%":
			a.p50, err = time.ParseDuration(fields[1])
		case fields[0] == "99%":
			a.p99, err = time.ParseDuration(fields[1])
		case fields[0] == "Requests/sec:":
			a.perSec, err = strconv.ParseFloat(fields[1], 64)
		case fields[1] == "requests" && len(fields) > 2:
			a.requests, err = strconv.Atoi(fields[0])
		}
		if err != nil {
			return a, err
		}
	}
	if a.requests == 0 || a.perSec == 0 || a.p50 == 0 || a.p99 == 0 {
		return a, errors.New("no request was answered in the time that there was: -duration gives more")
	}
	return a, nil
}
