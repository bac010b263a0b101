package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// Every level works in its small form, and finds no error.
func TestQuick(t *testing.T) {
	if err := rig.DependOnSources(); err != nil {
		t.Fatal(err)
	}
	var out, said strings.Builder
	s, err := parseFlags([]string{"-quick", "-data", t.TempDir()}, &said)
	if err == nil {
		err = s.run(t.Context(), &out, &said)
	}
	if err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &said)
	}
	for _, l := range levels {
		if !strings.Contains(out.String(), "\n"+l.name+"  ") {
			t.Errorf("there is nothing about %s:\n%s", l.name, &out)
		}
	}
	t.Log(out.String())
}

// A quantile differs by at most 1/64 from the true value.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10000 {
		d := time.Duration(random.Int64N(1 << (1 + random.IntN(40))))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999, 1} {
		is, got := all[max(int(q*10000+0.5)-1, 0)], h.quantile(q)
		if got < is || float64(got) > float64(is)*(1+1.0/64)+1 {
			t.Errorf("quantile %v is %v; want %v", q, got, is)
		}
	}
	if n := h.count(); n != 10000 {
		t.Errorf("it has %d", n)
	}
	if is := new(histogram).quantile(0.5); is != 0 {
		t.Errorf("of nothing, %v", is)
	}
}

// fake is a proxy that answers as what says.
func fake(t *testing.T, what *atomic.Value) *target {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch what.Load() {
		case "down":
			w.WriteHeader(http.StatusBadGateway)
		case "busy":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		case "slow":
			time.Sleep(300 * time.Millisecond)
			io.WriteString(w, "bytes")
		default:
			io.WriteString(w, what.Load().(string))
		}
	}))
	t.Cleanup(server.Close)
	path := "/package"
	one := &target{module: "acme/m/aws", version: "1.0.0", answered: true, token: strings.TrimPrefix(server.URL, "http://")}
	one.signed.Store(&path)
	c := &conn{address: one.token, timeout: time.Second}
	first := c.ask(t.Context(), path, "", true)
	one.sum, one.size = first.sum, first.size
	return one
}

// Answers are counted by their content: other bytes are wrong even where errors are excused.
func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		answer                      string
		excused                     bool
		good, told, failed, problem bool
	}{
		{answer: "bytes", good: true},
		{answer: "bytez", excused: true, problem: true},
		{answer: "byte", excused: true, problem: true},
		{answer: "down", failed: true, problem: true},
		{answer: "down", excused: true},
		{answer: "busy", excused: true, told: true},
		{answer: "busy", told: true, failed: true, problem: true},
	} {
		var what atomic.Value
		what.Store("bytes")
		one := fake(t, &what)
		what.Store(c.answer)
		l := &load{address: one.token, conns: 2, rate: 20, length: 200 * time.Millisecond, next: only([]*target{one}, archive),
			excused: func(reply, time.Time, time.Time) bool { return c.excused }}
		o := l.run(t.Context())
		for name, is := range map[string][2]bool{
			"good": {o.good.Load() > 0, c.good}, "told": {o.told.Load() > 0, c.told}, "failed": {o.failed.Load() > 0, c.failed},
			"a problem": {len(o.problems.list()) > 0, c.problem},
		} {
			if is[0] != is[1] {
				t.Errorf("%+v: %s is %v", c, name, is[0])
			}
		}
	}
}

// A request behind a slow answer is slow, too: its time counts since the time for the request.
func TestOpenLoop(t *testing.T) {
	var what atomic.Value
	what.Store("slow")
	one := fake(t, &what)
	l := &load{address: one.token, conns: 1, rate: 20, length: time.Second, next: only([]*target{one}, archive)}
	o := l.run(t.Context())
	if n, most := o.good.Load(), o.took.quantile(1); n < 2 || n > 5 || most < 500*time.Millisecond {
		t.Errorf("%d answers, the slowest after %v", n, most)
	}
	if late := o.late.quantile(1); late > 250*time.Millisecond {
		t.Errorf("the generator says it was late by %v, and the server was", late)
	}
}

// A figure outside its bound is reported as missed, and a violated invariant as wrong.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		row  *row
		want string
	}{
		{new(row).most("p99", 50, " ms", 50).least("sent", 500, " MB/s", 500), "held"},
		{new(row).most("p99", 51, " ms", 50), "missed: p99 51 ms, want ≤ 50 ms"},
		{new(row).least("sent", 499, " MB/s", 500), "missed: sent 499 MB/s, want ≥ 500 MB/s"},
		{&row{Wrong: []string{"other bytes"}}, "WRONG"},
	} {
		if got := c.row.held(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, args := range [][]string{{"-levels", "L1,L99"}, {"-scale", "0"}, {"-soak", "1ms"}, {"-soak", "24h"}, {"now"}, {"-x"}} {
		if s, err := parseFlags(args, io.Discard); !errors.As(err, new(misuse)) {
			t.Errorf("parseFlags(%q) = %+v, %v; want misuse", args, s, err)
		}
	}
}
