// Command load checks what the built program promises under load, on one machine:
//
//	go run ./test/load                      all levels but L8, about half an hour on a quiet machine
//	go run ./test/load -levels L8 -soak 8h  the soak
//	go run ./test/load -quick               every level for a few seconds, as a check that it works
//	go run ./test/load -h                   the flags
//
// modproxy runs as in production: clients need tokens, packages have signed paths, every request has a line in the log, metrics are
// read, and packages are verified as by default. This process is its registry, on loopback, and has the clients. They send requests at a
// constant rate, whether these are answered in time or not. The time of an answer counts from the time for the request: a request behind
// a slow answer is slow, too. Every byte of every package is compared with the first answer, whose digest the proxy and its ledger have.
//
// How to read it: with two processors or more, the generator and the proxy have half of them each. The generator reports its own delay;
// if it is near the measured times, these are delays of the generator. A bound that does not hold is reported as missed. A violated
// invariant is "WRONG" on any machine, and fails the run: other bytes, an unexplained error, a loss, a damaged ledger, more upstream
// requests than packages.
//
// It listens on loopback, sends no requests elsewhere, ends on a signal and removes its files. The soak needs root, Linux, mount and
// mkfs.ext4 to fill a disk, and leaves that out elsewhere.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// settings are the values of the flags.
type settings struct {
	levels   []string
	scale    float64
	quick    bool
	soak     time.Duration
	every    time.Duration
	modules  int
	size     int
	data     string
	proxy    string
	pin      bool
	json     bool
	markdown bool
	args     []string
}

// misuse is an error in the use of the program.
type misuse struct{ error }

// errWrong is the error of a run that violated an invariant.
var errWrong = errors.New("something was wrong that must never be")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := parseFlags(os.Args[1:], os.Stderr)
	if err == nil {
		err = apart(s)
	}
	if err == nil {
		err = s.run(ctx, os.Stdout, os.Stderr)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(misuse)):
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{args: args}
	flags := flag.NewFlagSet("load", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("levels", "", "what to run, with commas between: all but L8 if it is not set, L8 too with -quick")
	flags.Float64Var(&s.scale, "scale", 1, "how long each level takes, of its full length")
	flags.BoolVar(&s.quick, "quick", false, "all levels in small and for a few seconds; what they measure means nothing")
	flags.DurationVar(&s.soak, "soak", 8*time.Hour, "how long the soak takes, up to 23h, for which certificates are good")
	flags.DurationVar(&s.every, "fault-every", 5*time.Minute, "how often the soak has a fault")
	flags.IntVar(&s.modules, "modules", 10000, "modules of the catalogue of L6, with ten versions each")
	flags.IntVar(&s.size, "size", 4<<10, "bytes of each of its packages: 200000 take 20 GB")
	flags.StringVar(&s.data, "data", os.TempDir(), "where everything is kept; a disk")
	flags.StringVar(&s.proxy, "proxy", "", "a modproxy that is built already (go build ./cmd/modproxy)")
	flags.BoolVar(&s.pin, "pin", true, "give the generator half of the processors, and the proxy the others")
	flags.BoolVar(&s.json, "json", false, "print JSON")
	flags.BoolVar(&s.markdown, "markdown", false, "print the rows of a table for PERFORMANCE.md")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, misuse{err}
	}
	if flags.NArg() > 0 {
		return nil, misuse{fmt.Errorf("unknown argument %q", flags.Arg(0))}
	}
	if s.levels = strings.FieldsFunc(*names, func(r rune) bool { return r == ',' }); len(s.levels) == 0 {
		for _, l := range levels {
			if s.quick || l.name != "L8" {
				s.levels = append(s.levels, l.name)
			}
		}
	}
	for _, name := range s.levels {
		if !slices.ContainsFunc(levels, func(l level) bool { return l.name == name }) {
			return nil, misuse{fmt.Errorf("-levels: unknown level %q", name)}
		}
	}
	if s.scale <= 0 || s.scale > 100 || s.soak < time.Second || s.soak > 23*time.Hour || s.every < time.Second || s.modules < 1 || s.size < 1 || s.size > 10<<20 {
		return nil, misuse{errors.New("want a scale up to 100, a soak of 1s to 23h, a second for its faults, and a module of 1 to 10485760 bytes")}
	}
	return s, nil
}

func (s *settings) run(ctx context.Context, stdout, stderr io.Writer) error {
	debug.SetGCPercent(400) // the generator uses little memory, and leaves the processors to others
	w, err := newWorld(ctx, s, stderr)
	if err != nil {
		return err
	}
	limit := time.Duration(max(s.scale, 1) * float64(2*time.Hour))
	if slices.Contains(s.levels, "L8") {
		limit += s.soak
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	err = w.runAll(ctx, stdout)
	return errors.Join(err, os.RemoveAll(w.dir))
}

// runAll runs the levels and prints their results.
func (w *world) runAll(ctx context.Context, stdout io.Writer) error {
	s, r := w.settings, &report{Machine: machine(w.program, w.args)}
	for _, l := range levels {
		if !slices.Contains(s.levels, l.name) {
			continue
		}
		w.say("%s: %s", l.name, l.load)
		one := &row{Level: l.name, Load: l.load, BoundBy: l.bound}
		r.Rows = append(r.Rows, one)
		if err := l.run(w, ctx, one); err != nil {
			one.note("it has not ended")
			return errors.Join(fmt.Errorf("%s: %w", l.name, err), context.Cause(ctx), r.writeText(stdout))
		}
		w.say("%s: %s", l.name, one.held())
	}
	write := r.writeText
	switch {
	case s.json:
		write = r.writeJSON
	case s.markdown:
		write = r.writeMarkdown
	}
	if err := write(stdout); err != nil {
		return err
	}
	if r.wrong() {
		return errWrong
	}
	return nil
}

// A world is the environment of the levels.
type world struct {
	*settings
	dir     string
	program string
	stderr  io.Writer
}

func newWorld(ctx context.Context, s *settings, stderr io.Writer) (*world, error) {
	dir, err := os.MkdirTemp(s.data, "load-")
	if err != nil {
		return nil, err
	}
	w := &world{settings: s, dir: dir, program: s.proxy, stderr: stderr}
	if w.program == "" {
		if w.program, err = rig.Program(ctx, dir); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return w, nil
}

func (w *world) say(format string, args ...any) {
	fmt.Fprintf(w.stderr, "%s  %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}

// lasting is the duration of something that takes full in the long form.
func (w *world) lasting(full time.Duration) time.Duration {
	if w.quick {
		return min(full, time.Second)
	}
	return max(time.Duration(float64(full)*w.scale), time.Second)
}

// many is a number in the long form, and a smaller one in the short form.
func (w *world) many(full, few int) int {
	if w.quick {
		return few
	}
	return full
}

// machine describes what the figures depend on.
func machine(program string, args []string) string {
	model := "unknown processor"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	busy, _ := os.ReadFile("/proc/loadavg")
	share := "shared by modproxy and the generator"
	if n := theirOwn(); n > 0 {
		share = fmt.Sprintf("%d of them for modproxy alone", n)
	}
	version, _ := exec.Command(program, "version").Output()
	first, _, _ := strings.Cut(string(version), "\n")
	return fmt.Sprintf("%s, %d %s processors, %s, Linux %s, %s, %s; load average before: %.14s; flags: %s", time.Now().Format(time.DateOnly),
		runtime.NumCPU()+theirOwn(), model, share, strings.TrimSpace(string(kernel)), runtime.Version(), first, busy, strings.Join(args, " "))
}
