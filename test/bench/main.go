// Command bench measures what modproxy costs and saves, in comparison with its alternatives, on one machine:
//
//	go run ./test/bench            everything, about an hour
//	go run ./test/bench -quick     the same with few and short runs, as a check that it works
//	go run ./test/bench -h         the flags
//
// Client. Terraform or OpenTofu installs 24 modules of 8 generated git repositories, over a line with a round trip of 80 ms and 20 MB/s:
// directly from git (git:: addresses), through a registry that answers with git locations, through a cold proxy whose registry answers
// with commits, tags or archives, through a warm proxy, and from nginx with the same packages as static files, which shows the client's
// own work. Every installation must have the same files. All of it is measured twice: with a line on which a new connection takes 160 ms
// before its first request, as with TCP and TLS, and with one on which it takes no time. The costs of a package for a cold proxy follow:
// time, memory, and the number of git processes, which are counted in a separate installation.
//
// Mirror. The same for a configuration whose modules call others: 96 calls of 23 packages, found in three steps; with and without
// read-ahead (the key cache.read_ahead). modproxy mirror fills a cold proxy with it. It has no comparison with git:: addresses,
// because the modules call each other by registry addresses.
//
// Providers. A client installs five providers of 4 MiB over the same line: directly from their registry, through a cold and a warm
// proxy, and from nginx with the same answers as static files. Every installation must have the same files and the same lock file. Then
// eight clients at once request a package of 200 MiB from a proxy that does not have it yet, from one that has it, and from nginx.
//
// Bundle. The packages of a proxy are exported to a file and imported elsewhere, in comparison with a copy of the file.
//
// Hot path. wrk requests documents and packages from the warm proxy, nginx with the same bytes on disk, nginx as a cache in front of
// that (proxy_cache), and a net/http handler with the bytes in memory, in turns. Every server must answer with the same bytes, and the
// handler with the same header fields: it is the reference for modproxy. The proxy checks tokens and signs the paths of packages.
// modproxy and nginx write one log line for each request, and modproxy counts requests.
//
// Pairs. wrk sends requests to a warm proxy, to another one like it, and to others that differ from it in one thing, in many short
// turns: ten rules, a token for each request, no log. In the same way it compares requests for the description of a version with those
// for the list of versions. Turns are compared with each other, and the interval shows what may be chance.
//
// Scale. A proxy with a thousand versions is compared with one that has ten times as many, and so on: the time to start, to list, to
// verify and to evict, its answers, and its memory. Ten times as many versions may cost eleven times as much.
//
// Cost. The number of requests to upstream in all this: none by a warm proxy, one by 200 clients at once. Any other number fails the
// run.
//
// How to read it: only figures of one run are comparable, as the ratios do it; the median of several turns counts. On a busy machine
// look at "cpu/request" first: it is the server's own time, and hardly depends on other load. The line is a TCP relay on loopback. It
// has latency, handshakes and a bandwidth, but no slow start and no loss, which both would cost a whole clone more than a proxy that
// fetches less. The proxy and nginx are on loopback without TLS; wrk shares the machine with them.
//
// It needs terraform or tofu, git, nginx and wrk in PATH (Debian: apt-get install nginx-light wrk; tools/build-tofu.sh builds an
// OpenTofu), and perf for -profile. It listens on loopback, sends no requests elsewhere, and removes its files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// settings are the values of the flags.
type settings struct {
	parts       []string
	tools       []string
	runs        int
	duration    time.Duration
	rounds      int
	connections int
	timeout     time.Duration
	modules     int // installed by the clients
	pairTurns   int // of each side of a pair
	versions    int // maximum number of stored versions
	idle        time.Duration
	scratch     string // the client's directory
	data        string // the servers' directory
	proxy       string // a built modproxy
	proxyEnv    []string
	profile     string
	json        bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(misuse)):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// misuse is an error in the use of the program.
type misuse struct{ error }

// The parts of a run.
var parts = []string{"client", "mirror", "providers", "bundle", "hot", "pairs", "cost", "scale"}

func parseFlags(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{modules: 24, pairTurns: 30, versions: 100_000, idle: time.Minute}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	part := flags.String("parts", strings.Join(parts, ","), "what to measure, with commas between")
	tool := flags.String("tool", "terraform", "clients, with commas between: terraform, tofu, or paths")
	flags.IntVar(&s.runs, "n", 5, "installations of each kind")
	flags.DurationVar(&s.duration, "duration", 8*time.Second, "how long wrk asks in one turn")
	flags.IntVar(&s.rounds, "rounds", 3, "turns of each server; the median counts")
	flags.IntVar(&s.connections, "connections", 64, "connections of wrk")
	flags.DurationVar(&s.timeout, "timeout", 90*time.Minute, "when to give up altogether")
	flags.StringVar(&s.scratch, "scratch", defaultScratch(), "where the client works; a tmpfs, for the disk is not what is measured")
	flags.StringVar(&s.data, "data", os.TempDir(), "where proxy, nginx and upstream keep their files; a disk")
	flags.StringVar(&s.proxy, "proxy", "", "a modproxy that is built already (go build ./cmd/modproxy)")
	env := flags.String("proxy-env", "", "more environment for modproxy, as GOMAXPROCS=1,GOGC=50")
	flags.StringVar(&s.profile, "profile", "", "directory for CPU profiles of the proxy on each hot path, by perf")
	flags.BoolVar(&s.json, "json", false, "print JSON")
	flags.IntVar(&s.modules, "modules", s.modules, "how many modules the clients install")
	flags.IntVar(&s.pairTurns, "turns", s.pairTurns, "turns of each side of a pair, of a second each")
	flags.IntVar(&s.versions, "versions", s.versions, "how many versions are kept at most; a million needs 6 GB")
	flags.DurationVar(&s.idle, "idle", s.idle, "how long a proxy is left alone before its idle memory is measured")
	flags.BoolFunc("quick", "-n 1 -modules 8 -duration 1s -rounds 1 -turns 3 -versions 10000 -idle 5s; what comes after it counts", func(string) error {
		s.runs, s.modules, s.duration, s.rounds, s.pairTurns = 1, 8, time.Second, 1, 3
		s.versions, s.idle = 10_000, 5*time.Second
		return nil
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, misuse{err}
	}
	if flags.NArg() > 0 {
		return nil, misuse{fmt.Errorf("unknown argument %q", flags.Arg(0))}
	}
	s.parts, s.tools, s.proxyEnv = list(*part), list(*tool), list(*env)
	for _, p := range s.parts {
		if !slices.Contains(parts, p) {
			return nil, misuse{fmt.Errorf("-parts: unknown part %q; want %s", p, strings.Join(parts, ", "))}
		}
	}
	if s.runs < 1 || s.rounds < 1 || s.connections < 1 || s.pairTurns < 1 || s.duration < time.Second {
		return nil, misuse{errors.New("want at least one run, round, turn and connection, and a second of each")}
	}
	if s.modules < 1 || s.modules > 24 {
		return nil, misuse{errors.New("-modules: want 1 to 24")}
	}
	if s.versions < 1000 || s.versions > 1_000_000 || s.idle < 0 {
		return nil, misuse{errors.New("-versions: want 1000 to 1000000")}
	}
	return s, nil
}

// defaultScratch is a tmpfs if there is one.
func defaultScratch() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	s, err := parseFlags(args, stderr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not done within %v", s.timeout))
	defer cancel()
	b, err := newBench(ctx, s, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	r := &report{Machine: machine(s)}
	for _, part := range []struct {
		name string
		run  func(context.Context, *report) error
	}{
		{"client", b.measureClients}, {"mirror", b.measureMirror}, {"providers", b.measureProviders},
		{"bundle", b.measureBundle}, {"hot", b.measureHot}, {"pairs", b.measurePairs}, {"cost", b.measureCost}, {"scale", b.measureScale},
	} {
		if !slices.Contains(s.parts, part.name) {
			continue
		}
		if err := part.run(ctx, r); err != nil {
			if ctx.Err() != nil {
				err = errors.Join(context.Cause(ctx), err)
			}
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if s.json {
		return r.writeJSON(stdout)
	}
	return r.writeText(stdout)
}
