// Package closure finds all modules and providers that a configuration installs.
//
// # Use
//
// A [Walker] begins at calls ([Start]). [Roots] reads them from directories on disk. [Walker.Walk] chooses the version of each
// called module, opens its package by Walker.Registry, reads it with package tfconfig, follows the calls in it, and reports each
// result as a [Found]. If the registry is a cache, a walk so downloads and stores all packages that it reaches. For providers it
// does that only if Walker.Providers is set.
//
// # Invariants
//
// Versions are the ones that the client chooses, Terraform or OpenTofu: see [ChooseModule] and [ChooseProvider]. A call that cannot
// be followed is reported with the reason, and the walk continues. A walk has at most 20,000 starts and follows at most 100,000
// calls, in chains of at most Walker.Depth. A directory whose arguments change sources is read for at most 16 sets of arguments. If a
// called package shows that an argument matters (tfconfig.Options.Passed), its callers are read again, at most 16 times. Too many
// starts are an error; every other limit is reported as a Found of kind [Trouble].
package closure

import (
	"context"
	"fmt"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// A Walker finds all modules and providers that configurations install, directly and through other modules, with the versions that a
// client chooses. It is safe for concurrent use.
type Walker struct {
	Registry modproxy.Registry // lists the versions that clients get, never stale ones
	Routes   Routes
	Reader   *tfconfig.Reader
	Nested   Nested // nil: calls that bypass registries are reported as [Bypass]
	// Providers downloads the releases of providers, too, and their packages for Platforms, or for those of a Start.
	Providers bool
	Platforms []modproxy.Platform
	// MayRead, if not nil, returns the reason why the calls in packages of a module are not followed. The reason is reported.
	MayRead   func(m modproxy.Address) error
	CallsOnly bool // skip problems of directories without calls, see [tfconfig.Options]
	AtOnce    int  // modules requested and read at the same time; zero: 8
	Depth     int  // length of a chain of calls; zero: 100
}

// Routes decides which modules go through the proxy.
type Routes interface {
	// Upstream returns the module that clients get for a request for m: m itself, or another if m has a name of this proxy. The error
	// is the reason why m does not go through the proxy.
	Upstream(m modproxy.Address) (modproxy.Address, error)
}

// Nested resolves sources that bypass registries and that this proxy serves.
type Nested interface {
	// Source returns the version under which the package of a source in a package of v is stored, and the directory in it. ok is false
	// if the proxy does not serve the source.
	Source(v modproxy.Ref, source string) (of modproxy.Ref, subdir string, ok bool)
}

// Start is the beginning of a walk. Its Call decides which of three things it is:
//
//   - With a Name, it is a call in a configuration. The walk follows this call.
//   - With a Source and without a Name, it is a module that the operator names. The walk also follows the calls in the directories
//     modules/* of the package, unless the Source names a directory.
//   - Without both, it is the configuration itself, with its Providers and Locks. The walk follows no call for it.
type Start struct {
	Client tfconfig.Client `json:"client"`
	// Root names the configuration. The modules of one configuration must agree on the versions of providers. Empty: a configuration of
	// its own.
	Root string `json:"root,omitempty"`
	tfconfig.Call
	Providers []tfconfig.Requirement `json:"providers,omitempty"`
	Locks     []tfconfig.Lock        `json:"locks,omitempty"`
	Platforms []modproxy.Platform    `json:"platforms,omitempty"` // instead of those of the Walker; the Starts of a Root are combined
}

// IsCall reports whether the walk follows a call for s: whether it is not the configuration itself.
func (s Start) IsCall() bool { return s.Call.Name != "" || s.Source != "" }

// FoundKind is the kind of a [Found].
type FoundKind string

const (
	// Chosen: a client chooses the version of Module. Reported once for each client, version and Subdir.
	Chosen FoundKind = "chosen"
	// Ready: Walker.Registry has returned the package of Module, which a cache has then stored. Reported once for each version.
	Ready FoundKind = "ready"
	// Bypass: the call does not go through the proxy, or its source is unknown. Err is the reason.
	Bypass FoundKind = "bypass"
	// Trouble: the called module, or a module that it calls, is unknown or unavailable. Err is the reason.
	Trouble FoundKind = "trouble"
)

// Found is a result of a walk. If several calls lead to it, the Found has the first one.
type Found struct {
	Kind       FoundKind
	Client     tfconfig.Client
	Chain      []Step       // the calls that lead to it, outermost first; empty for a module that the operator names
	Source     string       // of the last call, without user information and query; empty if unknown
	Constraint string       // the version constraint of the last call, as written
	Module     modproxy.Ref // if no version was chosen, Version is empty; if the module is unknown, too, it is zero
	Subdir     string       // the called directory of the package; "." for its root
	Provider   bool         // Module is a provider
	Dynamic    bool         // with Bypass: the source is unknown
	Err        error        // with Bypass and Trouble: a message for users, not nil
}

// Step is a call that leads to a result, or the position of a problem.
type Step struct {
	In modproxy.Ref // the version whose package contains the file; zero for a directory on disk
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
	maxStarts    = 20_000  // per walk
	maxDepth     = 100     // length of a chain of calls
	maxFollow    = 100_000 // per walk
	maxInstances = 16      // of one directory, with different arguments
	maxRounds    = 16      // per walk
)

// Walk finds all modules and providers that starts install, and calls each with the results. The calls of each for one Walk do not
// overlap. If a module is unavailable, Walk reports that and continues.
//
// The error is that of ctx, or [modproxy.ErrInvalid] if there are too many starts.
func (w *Walker) Walk(ctx context.Context, starts []Start, each func(Found)) error {
	if len(starts) > maxStarts {
		return invalid("%d calls to start from; the limit is %d", len(starts), maxStarts)
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

// round follows all calls. The variables that a package passes on to modules where they change a source or version are known only after
// reading these modules. The next round uses them, and reads and reports only new results.
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
