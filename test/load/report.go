package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// A row is the result of one level.
type row struct {
	Level   string   `json:"level"`
	Load    string   `json:"load"`
	Figures []figure `json:"figures"`
	Notes   []string `json:"notes,omitempty"`
	Wrong   []string `json:"wrong,omitempty"` // violated invariants
	BoundBy string   `json:"bound_by"`

	Goroutines [2]int   `json:"goroutines"` // maximum, and idle
	FDs        [2]int   `json:"fds"`
	Children   [2]int   `json:"children"`
	RSS        [2]int64 `json:"rss"`
	CPU        float64  `json:"cpu"` // processors, on average

	mu sync.Mutex // guards Wrong
}

// A figure is a measured value with its bounds.
type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Most  float64 `json:"at_most,omitempty"`
	Least float64 `json:"at_least,omitempty"`
}

// missed reports whether the figure is outside its bounds.
func (f figure) missed() bool { return f.Most > 0 && f.Value > f.Most || f.Value < f.Least }

func (f figure) String() string {
	return fmt.Sprintf("%s %s%s", f.Name, short(f.Value), f.Unit)
}

func (f figure) bound() string {
	switch {
	case f.Most > 0:
		return fmt.Sprintf("≤ %s%s", short(f.Most), f.Unit)
	case f.Least > 0:
		return fmt.Sprintf("≥ %s%s", short(f.Least), f.Unit)
	}
	return ""
}

// short formats a number with three digits.
func short(v float64) string {
	if v >= 1000 || v == float64(int64(v)) {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func mb(n int64) float64 { return float64(n) / 1e6 }

func (r *row) add(name string, value float64, unit string) *row {
	r.Figures = append(r.Figures, figure{Name: name, Value: value, Unit: unit})
	return r
}

func (r *row) most(name string, value float64, unit string, most float64) *row {
	r.Figures = append(r.Figures, figure{Name: name, Value: value, Unit: unit, Most: most})
	return r
}

func (r *row) least(name string, value float64, unit string, least float64) *row {
	r.Figures = append(r.Figures, figure{Name: name, Value: value, Unit: unit, Least: least})
	return r
}

func (r *row) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *row) wrong(what ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Wrong = append(r.Wrong, what...)
}

// latency adds the result of a load.
func (r *row) latency(o *outcome, p50, p99, p999 time.Duration) {
	r.add("rps", o.rps(), "/s")
	r.most("p50", ms(o.took.quantile(.5)), " ms", ms(p50))
	r.most("p99", ms(o.took.quantile(.99)), " ms", ms(p99))
	r.most("p99.9", ms(o.took.quantile(.999)), " ms", ms(p999))
	r.add("errors", float64(o.failed.Load()), "")
	r.note("the generator itself was late by %v at p99", o.late.quantile(.99).Round(10*time.Microsecond))
	if o.good.Load() == 0 {
		r.wrong("no question was answered well")
	}
	r.wrong(o.problems.list()...)
}

// usage adds the resources of the proxy; the last sample is that of the idle proxy.
func (r *row) usage(samples []sample, peak int64, cpu float64) {
	if len(samples) == 0 {
		return
	}
	last := samples[len(samples)-1]
	of := func(value func(sample) int) [2]int {
		most := slices.MaxFunc(samples, func(a, b sample) int { return cmp.Compare(value(a), value(b)) })
		return [2]int{value(most), value(last)}
	}
	r.Goroutines = of(func(s sample) int { return s.goroutines })
	r.FDs = of(func(s sample) int { return s.fds })
	r.Children = of(func(s sample) int { return s.children })
	r.RSS, r.CPU = [2]int64{peak, last.rss}, cpu
	for i, f := range r.Figures {
		if f.Name == "RSS peak" {
			r.Figures[i].Value = mb(peak)
		}
	}
}

// held reports whether the level held: no invariant was violated, and every figure is within its bounds.
func (r *row) held() string {
	var missed []string
	for _, f := range r.Figures {
		if f.missed() {
			missed = append(missed, fmt.Sprintf("%v, want %s", f, f.bound()))
		}
	}
	switch {
	case len(r.Wrong) > 0:
		return "WRONG"
	case len(missed) > 0:
		return "missed: " + strings.Join(missed, "; ")
	}
	return "held"
}

func (r *row) used() string {
	return fmt.Sprintf("RSS %.0f/%.0f MB, CPU %.2f, fds %d/%d, goroutines %d/%d, children %d/%d", mb(r.RSS[0]), mb(r.RSS[1]), r.CPU,
		r.FDs[0], r.FDs[1], r.Goroutines[0], r.Goroutines[1], r.Children[0], r.Children[1])
}

// A report is the result of a run.
type report struct {
	Machine string `json:"machine"`
	Rows    []*row `json:"levels"`
}

// wrong reports whether an invariant was violated.
func (r *report) wrong() bool {
	return slices.ContainsFunc(r.Rows, func(r *row) bool { return len(r.Wrong) > 0 })
}

func (r *report) writeJSON(w io.Writer) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	return out.Encode(r)
}

func (r *report) writeText(w io.Writer) error {
	fmt.Fprintln(w, r.Machine)
	for _, level := range r.Rows {
		fmt.Fprintf(w, "\n%s  %s\n", level.Level, level.Load)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range level.Figures {
			verdict := ""
			if f.bound() != "" {
				verdict = "held"
			}
			if f.missed() {
				verdict = "MISSED"
			}
			fmt.Fprintf(t, "    %s\t%s%s\t%s\t%s\n", f.Name, short(f.Value), f.Unit, f.bound(), verdict)
		}
		t.Flush()
		fmt.Fprintf(w, "    %s (most/idle)\n", level.used())
		for _, note := range level.Notes {
			fmt.Fprintf(w, "    %s\n", note)
		}
		for _, what := range level.Wrong {
			fmt.Fprintf(w, "    WRONG: %s\n", what)
		}
	}
	return nil
}

// writeMarkdown writes rows for PERFORMANCE.md.
func (r *report) writeMarkdown(w io.Writer) error {
	fmt.Fprintf(w, "%s\n\n| level | load | figures | used (most/idle) | held | what bounds it |\n|---|---|---|---|---|---|\n", r.Machine)
	for _, level := range r.Rows {
		var figures []string
		for _, f := range level.Figures {
			text := f.String()
			if f.bound() != "" {
				text += " (" + f.bound() + ")"
			}
			figures = append(figures, text)
		}
		figures = append(figures, level.Notes...)
		_, err := fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", level.Level, level.Load, strings.Join(figures, "; "), level.used(), level.held(), level.BoundBy)
		if err != nil {
			return err
		}
	}
	return nil
}
