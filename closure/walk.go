// Package closure finds all modules and providers that installing a configuration brings.
//
// # Use
//
// A [Walker] begins at calls ([Start]). [Roots] reads them from directories on disk. [Walker.Walk] chooses the version of each
// called module, reads the package with package tfconfig, follows the calls in it, and reports each result as a [Found].
//
// # What always holds
//
// Versions are the ones that the client chooses, Terraform or OpenTofu: see [ChooseModule] and [ChooseProvider]. A call that cannot
// be followed is reported with the reason, and the walk continues. The number of starts, calls, rounds, and instances of a
// directory is limited. A walk that reaches a limit reports it.
package closure

import (
	"context"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Walker finds all modules that configurations install: those that they call, those that these call, and so on, and the
// providers that they require. Each is of the version that a client chooses. It is safe for concurrent use.
type Walker struct {
	Registry modproxy.Registry // which lists what clients get, and nothing old
	Routes   Routes
	Reader   *tfconfig.Reader
	Nested   Nested // nil: what does not go through a registry is a [Bypass]
	// Providers has the releases of providers brought, too, and their packages for Platforms, or those of a Start.
	Providers bool
	Platforms []modproxy.Platform
	// MayRead, if not nil, returns why the calls of packages of a module are not followed, which is told then.
	MayRead   func(m modproxy.Address) error
	CallsOnly bool // what is wrong with what calls nothing is not told, see [Options]
	AtOnce    int  // how many modules are asked for and read at a time; zero: 8
	Depth     int  // how many calls are followed of which each leads to the next; zero: 100
}

// Routes knows what goes through the proxy.
type Routes interface {
	// Upstream returns the module that a client gets which asks for m: the same, or the one that a name of this proxy
	// stands for. Its error says why m does not go through the proxy.
	Upstream(m modproxy.Address) (modproxy.Address, error)
}

// Nested knows what is fetched though it does not go through a registry.
type Nested interface {
	// Source returns the version as which the package of a source is kept that stands in a package of v, and the directory in
	// it. ok is false for what is not fetched.
	Source(v modproxy.Ref, source string) (of modproxy.Ref, subdir string, ok bool)
}

// Start is where a walk begins: a call of a configuration; or of nobody, without a name, for what somebody names. Of that,
// what the directories in its directory modules call is followed, too, unless the source names a directory.
//
// One without a source calls nothing: it has what the configuration itself requires.
type Start struct {
	Client tfconfig.Client `json:"client"`
	// Root names the configuration, whose modules have to agree about the versions of providers. Empty: one of its own.
	Root string `json:"root,omitempty"`
	tfconfig.Call
	Providers []tfconfig.Requirement `json:"providers,omitempty"`
	Locks     []tfconfig.Lock        `json:"locks,omitempty"`
	Platforms []modproxy.Platform    `json:"platforms,omitempty"` // instead of those of the Walker; each Start of a Root adds some
}

// IsCall reports whether s is a call, or what somebody names as if it were one.
func (s Start) IsCall() bool { return s.Call.Name != "" || s.Source != "" }

// FoundKind says what a [Found] is about.
type FoundKind string

const (
	// Chosen: a client chooses the version of Module. It is told once for each client, version and Subdir.
	Chosen FoundKind = "chosen"
	// Ready: the package of Module is kept. It is told once for each version.
	Ready FoundKind = "ready"
	// Bypass: what is called does not go through the proxy, or that is not known. Err says why.
	Bypass FoundKind = "bypass"
	// Trouble: what is called, or what that calls, is not known or cannot be had. Err says why.
	Trouble FoundKind = "trouble"
)

// Found is something that a walk finds, with the first call that leads to it.
type Found struct {
	Kind       FoundKind
	Client     tfconfig.Client
	Chain      []Step       // the calls that lead to it, outermost first; empty for what is not called but named
	Source     string       // of the last call, without user information and query; empty if it is not known
	Constraint string       // the version of the last call, as written
	Module     modproxy.Ref // without a version, or zero, if none was chosen
	Subdir     string       // the directory of the package that is called; "." for its root
	Provider   bool         // it is about one
	Dynamic    bool         // of Bypass: what is called is not known
	Err        error        // of Bypass and Trouble, for people; not nil
}

// Step is a call on the way to something, or a line on which something is wrong.
type Step struct {
	In modproxy.Ref // the version whose package has the file; zero for a directory on disk
	tfconfig.Pos
}

func (s Step) String() string {
	if s.In.Version == "" {
		return s.Place()
	}
	return s.In.String() + ": " + s.Place()
}

const (
	atOnce       = 8
	maxStarts    = 20_000  // of a walk
	maxDepth     = 100     // calls of which each leads to the next
	maxFollow    = 100_000 // calls that a walk follows
	maxInstances = 16      // of calling one directory with other arguments
	maxRounds    = 16      // of a walk
)

// Walk finds the closure of starts, and calls each with what it finds, one at a time. What cannot be had is told, and the
// rest goes on.
//
// Its error is that of ctx, or [modproxy.ErrInvalid] if there are too many starts.
func (w *Walker) Walk(ctx context.Context, starts []Start, each func(Found)) error {
	if len(starts) > maxStarts {
		return invalid("%d calls to start from, which is more than %d", len(starts), maxStarts)
	}
	run := &walk{Walker: w, each: each, passed: map[dirKey]map[string]bool{}, told: map[string]bool{}}
	type name struct {
		tfconfig.Client
		root string
	}
	named := map[name]*root{}
	var tasks []task
	for _, s := range starts {
		of := named[name{s.Client, s.Root}]
		if of == nil || s.Root == "" {
			of = &root{client: s.Client, node: &node{}, locks: map[modproxy.Address]string{}}
			named[name{s.Client, s.Root}] = of
			run.roots = append(run.roots, of)
		}
		of.node.providers = append(of.node.providers, s.Providers...)
		of.lock(s.Locks)
		for _, p := range s.Platforms {
			if !slices.Contains(of.platforms, p) {
				of.platforms = append(of.platforms, p)
			}
		}
		if s.IsCall() {
			tasks = append(tasks, task{client: s.Client, from: of.node, call: s.Call})
		}
	}
	for round := 1; round == 1 || run.grown && round <= maxRounds && ctx.Err() == nil; round++ {
		run.round(ctx, tasks, round == maxRounds)
	}
	if w.Providers {
		run.providers(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	run.tellCycles()
	return nil
}

// round follows all calls. Which variables a package passes on to others that make a difference there is known only when these were
// read. The next round goes by it, and reads and tells only what is new.
func (r *walk) round(ctx context.Context, tasks []task, last bool) {
	r.directories, r.count, r.grown, r.last = map[dirKey]*instances{}, 0, false, last
	for _, root := range r.roots {
		root.node.edges = nil
	}
	for _, t := range tasks {
		r.follow(ctx, t)
	}
	r.workers.Wait()
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", modproxy.ErrInvalid, fmt.Errorf(format, args...))
}
