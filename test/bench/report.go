package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report has the results of a run. Times are in seconds, sizes in bytes. Ratios are such that more is better for modproxy: of time for
// clients, and of requests a second and processor time of a request on the hot path.
type report struct {
	Machine   string           `json:"machine"`
	Clients   []clientReport   `json:"clients,omitempty"`
	Mirrors   []mirrorReport   `json:"mirrors,omitempty"`
	Providers *providersReport `json:"providers,omitempty"`
	Bundle    *bundleReport    `json:"bundle,omitempty"`
	Hot       []targetReport   `json:"hot,omitempty"`
	Rounds    string           `json:"rounds,omitempty"`
	Pairs     []pairReport     `json:"pairs,omitempty"`
	Stampede  *stampedeReport  `json:"stampede,omitempty"`
	Scale     *scaleReport     `json:"scale,omitempty"`
}

type clientReport struct {
	Client       string      `json:"client"`
	Connect      float64     `json:"new_connection"`
	Modules      int         `json:"modules"`
	Repositories string      `json:"repositories"`
	Ways         []wayReport `json:"ways"`
	Goals        []goal      `json:"goals"`
	Floor        string      `json:"floor"`
}

type wayReport struct {
	Way      string         `json:"way"`
	Runs     []float64      `json:"runs"`
	Median   float64        `json:"median"`
	Min      float64        `json:"min"`
	Max      float64        `json:"max"`
	Upstream map[string]int `json:"upstream"`
	Spent    *spentReport   `json:"spent,omitempty"`
}

// spentReport has the resources used by a cold proxy: medians, but the maximum of memory.
type spentReport struct {
	CPU       float64 `json:"cpu_per_package"`
	Processes float64 `json:"git_processes_per_package"`
	Peak      int64   `json:"peak_memory"`
	PeakAll   int64   `json:"peak_memory_with_processes"`
}

// goal is a ratio, and its maximum, if there is a target.
type goal struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
	Most  float64 `json:"target,omitempty"`
	Met   bool    `json:"met"`
}

// ratioOf compares the medians of two ways.
func ratioOf(ways []*way, name, other string, most float64) goal {
	medians := map[string]float64{}
	for _, w := range ways {
		medians[w.name] = median(w.seconds)
	}
	value := medians[name] / medians[other]
	return goal{What: name + " to " + other, Value: value, Most: most, Met: most == 0 || value <= most}
}

type targetReport struct {
	Target  string         `json:"target"`
	Bytes   int            `json:"bytes"`
	Servers []serverReport `json:"servers"`
}

type serverReport struct {
	Server string  `json:"server"`
	PerSec float64 `json:"requests_per_second"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	CPU    float64 `json:"cpu_per_request"`
	Peak   int64   `json:"peak_memory,omitempty"`
	// Relative to the handler with the answers in memory: more is better for requests, less for processor time.
	ToMemory    float64 `json:"to_memory"`
	CPUToMemory float64 `json:"cpu_to_memory"`
}

// hotTarget is the least ratio of the requests that modproxy answers to those that the handler answers. Answers of
// sizeWithoutTarget bytes or more have no target: their cost is that of the system.
const (
	hotTarget         = 0.85
	sizeWithoutTarget = 50_000_000
)

type stampedeReport struct {
	Clients  int            `json:"clients"`
	Upstream map[string]int `json:"upstream"`
}

// median returns the median of at least one value.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r *report) addClient(name string, repos []*repository, connect time.Duration, ways []*way) {
	var packed int64
	for _, repo := range repos {
		packed += repo.packed
	}
	modules := len(ways[0].modules)
	c := clientReport{Client: name, Connect: connect.Seconds(), Modules: modules, Repositories: fmt.Sprintf(
		"%d repositories of %d to %d files and %d to %d commits, %.1f MB packed", len(repos),
		repos[0].files, repos[len(repos)-1].files, repos[0].commits, repos[len(repos)-1].commits, float64(packed)/1e6)}
	for _, w := range ways {
		c.Ways = append(c.Ways, w.report(modules))
		if w.cold {
			c.Goals = append(c.Goals, ratioOf(ways, w.name, wayRegistry, coldTarget(connect)), ratioOf(ways, w.name, wayGit, 0.6))
		}
	}
	c.Goals = append(c.Goals, ratioOf(ways, wayWarm, wayNginx, 1.1))
	c.Floor = floor(ways, connect)
	r.Clients = append(r.Clients, c)
}

// coldTarget is the maximum time of a cold proxy, relative to the registry and git.
func coldTarget(connect time.Duration) float64 {
	if connect == 0 {
		return 0.5
	}
	return 0.3
}

// floor describes the time of a cold installation that the line alone takes, if the client requests one module after another: one
// request for the list of each module, and two for the location of each version and the version, over two new connections. The time of
// servers adds to that.
func floor(ways []*way, connect time.Duration) string {
	names := map[string]bool{}
	var kb int
	var registry float64
	for _, w := range ways {
		switch w.name {
		case coldBy[byCommit]:
			for _, m := range w.modules {
				names[m.name] = true
			}
			kb = w.upstream["KB"]
		case wayRegistry:
			registry = median(w.seconds)
		}
	}
	questions := len(names) + 2*len(ways[0].modules)
	least := float64(questions)*roundTrip.Seconds() + 2*connect.Seconds() + float64(kb)*1000/bandwidth
	return fmt.Sprintf("the line alone: %d questions one after the other, 2 new connections and %.1f MB take %.2f s, %.2f of %s",
		questions, float64(kb)/1000, least, least/registry, wayRegistry)
}

// report has the costs of bringing packages in this way.
func (w *way) report(packages int) wayReport {
	out := wayReport{
		Way: w.name, Runs: w.seconds, Median: median(w.seconds),
		Min: slices.Min(w.seconds), Max: slices.Max(w.seconds), Upstream: w.upstream,
	}
	if len(w.spent) > 0 {
		out.Spent = &spentReport{Processes: float64(w.processes) / float64(packages)}
		all := median(each(w.spent, func(s spent) time.Duration { return s.cpu }))
		out.Spent.CPU = all.Seconds() / float64(packages)
		for _, s := range w.spent {
			out.Spent.Peak, out.Spent.PeakAll = max(out.Spent.Peak, s.own), max(out.Spent.PeakAll, s.whole)
		}
	}
	return out
}

func (r *report) addHot(b *bench, targets []*target) {
	r.Rounds = fmt.Sprintf("medians of %d turns of %v, wrk -t1 -c%d", b.rounds, b.duration, b.connections)
	for _, t := range targets {
		out := targetReport{Target: t.name, Bytes: t.bytes}
		for _, m := range t.servers {
			s := serverReport{Server: m.server.name, CPU: median(m.cpu).Seconds(), Peak: m.peak}
			s.PerSec = median(each(m.turns, func(a asked) float64 { return a.perSec }))
			s.P50 = median(each(m.turns, func(a asked) time.Duration { return a.p50 })).Seconds()
			s.P99 = median(each(m.turns, func(a asked) time.Duration { return a.p99 })).Seconds()
			out.Servers = append(out.Servers, s)
		}
		memory := out.Servers[len(out.Servers)-1]
		for i := range out.Servers {
			s := &out.Servers[i]
			s.ToMemory, s.CPUToMemory = s.PerSec/memory.PerSec, s.CPU/memory.CPU
		}
		r.Hot = append(r.Hot, out)
	}
}

func each[T, V any](in []T, f func(T) V) (out []V) {
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

func (r *report) writeText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, r.Machine)
	for _, c := range r.Clients {
		c.writeText(t)
	}
	for _, m := range r.Mirrors {
		m.writeText(t)
	}
	if r.Providers != nil {
		r.Providers.writeText(t)
	}
	if u := r.Bundle; u != nil {
		fmt.Fprintf(t, "\nA bundle of %d packages, %.1f MB\n\nway\tmedian\tmin\tmax\tMB/s\n", u.Packages, float64(u.Bytes)/1e6)
		for _, way := range u.Ways {
			fmt.Fprintf(t, "%s\t%.2f s\t%.2f s\t%.2f s\t%.0f\n", way.Way, way.Median, way.Min, way.Max, float64(u.Bytes)/1e6/way.Median)
		}
	}
	if len(r.Hot) > 0 {
		fmt.Fprintf(t, "\nHot path, with a token or a signed path in each request, and a line of log for it:\n%s\n\n", r.Rounds)
		fmt.Fprintln(t, "\tserver\trequests/s\tto memory\tp50\tp99\tcpu/request\tto memory\tpeak memory")
		for _, target := range r.Hot {
			target.writeText(t)
		}
		fmt.Fprintf(t, "\n%s to %s\n", serverProxy, serverMemory)
		for _, target := range r.Hot {
			target.writeGoal(t)
		}
	}
	writePairs(t, r.Pairs)
	if s := r.Stampede; s != nil {
		fmt.Fprintf(t, "\n%d clients at once for one new package: upstream was asked %s\n", s.Clients, counts(s.Upstream))
	}
	if r.Scale != nil {
		r.Scale.writeText(t)
	}
	return t.Flush()
}

func (c *clientReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s get of %d modules: %s;\n%s\n\n", c.Client, c.Modules, c.Repositories, lineText(c.Connect))
	writeWays(w, c.Ways)
	writeGoals(w, c.Goals)
	fmt.Fprintln(w, c.Floor)
}

// lineText describes the line to upstream.
func lineText(connect float64) string {
	return fmt.Sprintf("round trip %v, a new connection %v ms more, %.0f MB/s", roundTrip, 1000*connect, bandwidth/1e6)
}

func writeWays(w io.Writer, ways []wayReport) {
	fmt.Fprintln(w, "way\tmedian\tmin\tmax\tupstream")
	for _, way := range ways {
		fmt.Fprintf(w, "%s\t%.2f s\t%.2f s\t%.2f s\t%s\n", way.Way, way.Median, way.Min, way.Max, counts(way.Upstream))
	}
	head := "\na package costs the\tcpu\tprocesses of git\tpeak memory\twith processes\n"
	for _, way := range ways {
		if s := way.Spent; s != nil {
			fmt.Fprintf(w, "%s%s\t%s\t%.1f\t%.1f MB\t%.1f MB\n", head, way.Way, inUnit(s.CPU), s.Processes,
				float64(s.Peak)/1e6, float64(s.PeakAll)/1e6)
			head = ""
		}
	}
}

func writeGoals(w io.Writer, goals []goal) {
	fmt.Fprintln(w)
	for _, g := range goals {
		note := ""
		if g.Most > 0 {
			note = fmt.Sprintf("\ttarget: at most %.1f\t%s", g.Most, met(g.Met))
		}
		fmt.Fprintf(w, "%s\t%.2f%s\n", g.What, g.Value, note)
	}
}

func (t *targetReport) writeText(w io.Writer) {
	name := t.Target
	for i, s := range t.Servers {
		memory := ""
		if i == 0 {
			memory = fmt.Sprintf("%.1f MB", float64(s.Peak)/1e6)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f\t%s\t%s\t%s\t%.2f\t%s\n", name, s.Server, s.PerSec, s.ToMemory,
			inUnit(s.P50), inUnit(s.P99), inUnit(s.CPU), s.CPUToMemory, memory)
		if name = ""; i == 0 {
			name = fmt.Sprintf("  %d bytes", t.Bytes)
		}
	}
}

// writeGoal writes the ratio of the requests that modproxy answers to those that the handler answers, beside the target.
func (t *targetReport) writeGoal(w io.Writer) {
	got := t.Servers[0].ToMemory
	if t.Bytes >= sizeWithoutTarget {
		fmt.Fprintf(w, "%s\t%.2f\tno target\t\n", t.Target, got)
		return
	}
	fmt.Fprintf(w, "%s\t%.2f\ttarget: at least %.2f\t%s\n", t.Target, got, hotTarget, met(got >= hotTarget))
}

func missed(is bool) string {
	if is {
		return " MISSED"
	}
	return ""
}

// met describes whether a target was met.
func met(is bool) string {
	if is {
		return "met"
	}
	return "MISSED"
}

// inUnit formats seconds with three digits.
func inUnit(seconds float64) string {
	if seconds < 1e-3 {
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	}
	return fmt.Sprintf("%.3g ms", seconds*1e3)
}

func counts(n map[string]int) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(n)) {
		all = append(all, fmt.Sprintf("%s %d", kind, n[kind]))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}
