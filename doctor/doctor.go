// Package doctor finds the problems of a proxy, its machine, its registries and a client.
//
//	report := doctor.Run(ctx, doctor.Options{Config: c, Wrong: wrong})
//	for _, f := range report.Findings { … }
//
// Invariants: a set-up without problems has no finding, whether or not the proxy runs. A finding has a cause and a remedy, and no secret. [Run]
// does not claim the data directory. To find out whether it is writable, Run creates a small file in it and removes the file. Run returns
// within [Limit], even if a disk or a server does not answer.
//
// docs/reference/doctor.md lists the kinds of findings.
package doctor

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/internal/datadir"
	"github.com/modproxy/modproxy/tfconfig"
	"github.com/modproxy/modproxy/upstream"
)

// Options select the parts that Run examines.
type Options struct {
	// Config is the configuration of the proxy, and Wrong its mistakes: see [config.Check]. If Config is nil, Run examines only the client.
	Config *config.Config
	Wrong  config.Error
	// Client is the path of the CLI configuration of a developer. If it is empty, Run examines no client.
	Client  string
	Version string // version of the program, for the header User-Agent
}

// Report is the result of [Run].
type Report struct {
	Findings []Finding
	Checked  []string // the examined parts, in order
	Skipped  []string // the parts that could not be examined, each with the reason
}

// Finding is one problem.
type Finding struct {
	Kind     string   `json:"kind"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // a file, URL, host, key or variable
	Cause    string   `json:"cause"`
	Remedy   string   `json:"remedy"`
}

// Time limits.
const (
	Limit = 14 * time.Second // for Run

	checkTime = 12 * time.Second // for each check
	askTime   = 6 * time.Second  // for each request to a server
)

// check examines one part of a set-up.
type check struct {
	part string
	// keys are the top-level keys on which the check depends. If one has a mistake, the check is skipped.
	keys     []string
	isOnline bool // sends requests to registries: does not run for a proxy that is offline
	isClient bool // examines the client: also runs if Options.Config is nil
	// has, if not nil, reports whether the configuration has this part. Without it, the check does not run.
	has func(*config.Config) bool
	run func(*examination, context.Context) []Finding
}

// checks are in the order of the report.
var checks = []check{
	{part: "configuration", run: (*examination).configuration},
	{part: "data directory", keys: []string{"data", "cache", "offline"}, run: (*examination).dataDirectory},
	{part: "tokens", keys: []string{"data", "auth", "anonymous", "listen", "public_url", "trusted_proxies"}, run: (*examination).tokens},
	{part: "git", keys: []string{"offline"}, isOnline: true, run: (*examination).git},
	{part: "limits", keys: []string{"limits", "fetch", "providers"}, run: (*examination).limits},
	{part: "clock", keys: []string{"upstreams", "egress", "offline"}, isOnline: true, run: (*examination).clock},
	{part: "listen address", keys: []string{"listen", "data"}, run: (*examination).listenAddress},
	{part: "certificate", keys: []string{"tls", "public_url"}, run: (*examination).certificate},
	{part: "public_url", keys: []string{"public_url", "listen", "tls", "data"}, run: (*examination).publicURL},
	{part: "proxy variables", isClient: true, run: (*examination).proxyVariables},
	{part: "upstreams", keys: []string{"upstreams", "egress", "offline"}, isOnline: true, run: (*examination).upstreams},
	{part: "sources", keys: []string{"sources", "credentials", "egress", "offline"}, isOnline: true, has: hasMirrors, run: (*examination).mirrors},
	{
		part: ownModules, keys: []string{"data", "modules", "modules_host", "public_url", "upstreams", "sources", "egress", "credentials", "offline"},
		has: hasModules, run: (*examination).modules,
	},
	{part: "client", isClient: true, run: (*examination).client},
}

// examination is the state of one Run. The checks run at the same time. The functions in it compute values that several checks need, once.
type examination struct {
	Options
	serving datadir.Dialer // nil if no process serves from the data directory
	network func() (*egress.Client, *upstream.Client)
	answers func() []answer
	reaches sync.Map // by URL: func() reached
	proxyAt sync.Map // by host and port of a proxy: func() error
	mu      sync.Mutex
	skipped []string // guarded by mu
	cli     func() (*tfconfig.CLI, error)
}

// Run examines a set-up. It runs all checks at the same time.
func Run(ctx context.Context, o Options) Report {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	e := &examination{Options: o}
	if c := o.Config; c != nil && c.IsSound("data") {
		e.serving = within(ctx, func() datadir.Dialer { return datadir.Serving(ctx, c.Data) })
	}
	e.network = sync.OnceValues(func() (*egress.Client, *upstream.Client) {
		network, registries, _ := app.OpenUpstreams(o.Config, app.Options{Version: o.Version}) // the configuration has been checked
		return network, registries
	})
	e.cli = sync.OnceValues(func() (*tfconfig.CLI, error) { return tfconfig.NewReader(nil, 0).ReadCLI(ctx, o.Client) })
	e.answers = sync.OnceValue(func() []answer { return e.askUpstreams(ctx) })
	var out Report
	found := make([]chan []Finding, len(checks))
	for i, c := range checks {
		if why, isIn := e.skips(c); why != "" || !isIn {
			if isIn {
				e.skip(c.part, why)
			}
			continue
		}
		out.Checked = append(out.Checked, c.part)
		found[i] = make(chan []Finding, 1)
		go func() { found[i] <- c.run(e, ctx) }()
	}
	last := time.After(Limit - time.Second)
	for i, c := range checks {
		if found[i] == nil {
			continue
		}
		select {
		case all := <-found[i]:
			out.Findings = append(out.Findings, all...)
		case <-last:
			out.Findings = append(out.Findings, finding("unfinished", c.part, "no result within %v", Limit-time.Second))
			last = time.After(0) // for the other checks
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	out.Skipped = append([]string{}, e.skipped...)
	return out
}

// within returns the result of f, or the zero value if ctx ends first. f may then still run.
func within[T any](ctx context.Context, f func() T) (result T) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	select {
	case result = <-done:
	case <-ctx.Done():
	}
	return result
}

// skips reports whether a check belongs to the examination. If it does and cannot run, why is the reason.
func (e *examination) skips(c check) (why string, isIn bool) {
	switch {
	case c.part == "client" && e.Client == "", e.Config == nil && !c.isClient:
		return "", false
	case e.Config == nil:
		return "", true
	case c.has != nil && !c.has(e.Config):
		return "", false
	case !e.Config.IsSound(c.keys...):
		return "the configuration has a mistake", true
	case c.isOnline && e.Config.Offline:
		return "", false
	}
	return "", true
}

// skip records that a part was not examined.
func (e *examination) skip(part, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.skipped = append(e.skipped, part+" ("+why+")")
}

// once returns the result of f for a key. It calls f once for each key; concurrent callers wait for the result.
func once[T any](all *sync.Map, key string, f func() T) T {
	do, _ := all.LoadOrStore(key, sync.OnceValue(f))
	return do.(func() T)()
}

// finding returns a finding with the severity and the remedy of its kind. format and args are the cause.
func finding(kind, subject, format string, args ...any) Finding {
	k := kindOf(kind)
	f := Finding{Kind: kind, Severity: k.Severity, Subject: subject, Cause: oneLine(fmt.Sprintf(format, args...))}
	return f.with(k.Remedy)
}

// with returns f with another remedy, in which it replaces SUBJECT by the subject of f.
func (f Finding) with(remedy string) Finding {
	f.Remedy = strings.ReplaceAll(oneLine(remedy), "SUBJECT", f.Subject)
	return f
}

func oneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// hostOf returns the hostname of a URL, or an empty string if the URL is invalid.
func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
