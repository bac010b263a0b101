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

// report is what a run has found. Times are in seconds, sizes in bytes, and
// ratios such that more is more: of time for clients, of requests a second and of
// computing for one request on the hot path.
type report struct {
	Machine   string           `json:"machine"`
	Clients   []clientReport   `json:"clients,omitempty"`
	Mirrors   []mirrorReport   `json:"mirrors,omitempty"`
	Providers *providersReport `json:"providers,omitempty"`
	Bundle    *bundleReport    `json:"bundle,omitempty"`
	Hot       []targetReport   `json:"hot,omitempty"`
	Rounds    string           `json:"rounds,omitempty"`
	Gate      []pairReport     `json:"gate,omitempty"`
	Stampede  *stampedeReport  `json:"stampede,omitempty"`
}

type clientReport struct {
	Client       string      `json:"client"`
	Modules      int         `json:"modules"`
	Repositories string      `json:"repositories"`
	Ways         []wayReport `json:"ways"`
	ColdToGit    float64     `json:"cold_to_git"`
	ColdToToday  float64     `json:"cold_to_registry_git"`
	WarmToNginx  float64     `json:"warm_to_nginx"`
}

type wayReport struct {
	Way      string         `json:"way"`
	Runs     []float64      `json:"runs"`
	Median   float64        `json:"median"`
	Min      float64        `json:"min"`
	Max      float64        `json:"max"`
	Upstream map[string]int `json:"upstream"`
}

type targetReport struct {
	Target  string         `json:"target"`
	Bytes   int            `json:"bytes"`
	Servers []serverReport `json:"servers"`
}

type serverReport struct {
	Server  string  `json:"server"`
	PerSec  float64 `json:"requests_per_second"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
	CPU     float64 `json:"cpu_per_request"`
	Peak    int64   `json:"peak_memory,omitempty"`
	ToCache float64 `json:"to_proxy_cache"`
}

type stampedeReport struct {
	Clients  int            `json:"clients"`
	Upstream map[string]int `json:"upstream"`
}

// median of at least one value.
func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r *report) addClient(name string, repos []*repository, modules int, ways []*way) {
	var packed int64
	for _, repo := range repos {
		packed += repo.packed
	}
	c := clientReport{Client: name, Modules: modules, Repositories: fmt.Sprintf(
		"%d repositories of %d to %d files and %d to %d commits, %.1f MB packed", len(repos),
		repos[0].files, repos[len(repos)-1].files, repos[0].commits, repos[len(repos)-1].commits, float64(packed)/1e6)}
	medians := map[string]float64{}
	for _, w := range ways {
		medians[w.name] = median(w.seconds)
		c.Ways = append(c.Ways, w.report())
	}
	c.ColdToGit = medians[wayCold] / medians[wayGit]
	c.ColdToToday = medians[wayCold] / medians[wayRegistry]
	c.WarmToNginx = medians[wayWarm] / medians[wayNginx]
	r.Clients = append(r.Clients, c)
}

func (w *way) report() wayReport {
	return wayReport{
		Way: w.name, Runs: w.seconds, Median: median(w.seconds),
		Min: slices.Min(w.seconds), Max: slices.Max(w.seconds), Upstream: w.upstream,
	}
}

func (r *report) addHot(b *bench, targets []*target) {
	r.Rounds = fmt.Sprintf("medians of %d turns of %v, wrk -t1 -c%d", b.rounds, b.duration, b.connections)
	for _, t := range targets {
		out := targetReport{Target: t.name, Bytes: t.bytes}
		var cached float64
		for _, m := range t.servers {
			s := serverReport{Server: m.name, CPU: median(m.cpu).Seconds(), Peak: m.peak}
			s.PerSec = median(each(m.turns, func(a asked) float64 { return a.perSec }))
			s.P50 = median(each(m.turns, func(a asked) time.Duration { return a.p50 })).Seconds()
			s.P99 = median(each(m.turns, func(a asked) time.Duration { return a.p99 })).Seconds()
			if m.name == serverCache {
				cached = s.PerSec
			}
			out.Servers = append(out.Servers, s)
		}
		for i := range out.Servers {
			out.Servers[i].ToCache = out.Servers[i].PerSec / cached
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
		fmt.Fprintf(t, "\n%s get of %d calls of %d packages, and modproxy mirror of the same: round trip %v, %.0f MB/s\n\n",
			m.Client, m.Calls, m.Packages, roundTrip, bandwidth/1e6)
		writeWays(t, m.Ways)
		fmt.Fprintf(t, "\nmirror to %s: %.2f (target: at most 0.3)%s\n", wayRegistry, m.Ratio, missed(m.Ratio > 0.3))
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
		fmt.Fprintf(t, "\nHot path: %s; one line of log for each request\n\n", r.Rounds)
		fmt.Fprintln(t, "\tserver\trequests/s\tto proxy_cache\tp50\tp99\tcpu/request\tpeak memory")
		for _, target := range r.Hot {
			target.writeText(t)
		}
	}
	writeGate(t, r.Gate)
	if s := r.Stampede; s != nil {
		fmt.Fprintf(t, "\n%d clients at once for one new package: upstream was asked %s\n", s.Clients, counts(s.Upstream))
	}
	return t.Flush()
}

func (c *clientReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s get of %d modules: %s; round trip %v, %.0f MB/s\n\n", c.Client, c.Modules, c.Repositories, roundTrip, bandwidth/1e6)
	writeWays(w, c.Ways)
	fmt.Fprintln(w)
	for _, ratio := range []struct {
		what        string
		value, most float64
	}{
		{wayCold + " to " + wayGit, c.ColdToGit, 1},
		{wayCold + " to " + wayRegistry, c.ColdToToday, 1},
		{wayWarm + " to " + wayNginx, c.WarmToNginx, 1.2},
	} {
		fmt.Fprintf(w, "%s: %.2f (target: at most %.1f)%s\n", ratio.what, ratio.value, ratio.most, missed(ratio.value > ratio.most))
	}
}

func writeWays(w io.Writer, ways []wayReport) {
	fmt.Fprintln(w, "way\tmedian\tmin\tmax\trequests upstream")
	for _, way := range ways {
		fmt.Fprintf(w, "%s\t%.2f s\t%.2f s\t%.2f s\t%s\n", way.Way, way.Median, way.Min, way.Max, counts(way.Upstream))
	}
}

func (t *targetReport) writeText(w io.Writer) {
	name := fmt.Sprintf("%s, %d bytes", t.Target, t.Bytes)
	for _, s := range t.Servers {
		note, memory := "", ""
		if s.Server == serverProxy {
			note = missed(s.ToCache < 0.6)
			memory = fmt.Sprintf("%.1f MB", float64(s.Peak)/1e6)
		}
		fmt.Fprintf(w, "%s\t%s\t%.0f\t%.2f%s\t%s\t%s\t%s\t%s\n", name, s.Server, s.PerSec, s.ToCache, note,
			inUnit(s.P50), inUnit(s.P99), inUnit(s.CPU), memory)
		name = ""
	}
}

func missed(is bool) string {
	if is {
		return " MISSED"
	}
	return ""
}

// inUnit is a time of seconds with three digits.
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
