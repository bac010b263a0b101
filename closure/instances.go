package closure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// dirKey identifies a directory of a package as one client reads it.
type dirKey struct {
	client tfconfig.Client
	module modproxy.Ref // folded
	dir    string
	all    bool // including its submodules
}

// instances are the different calls of one directory. The directory is read again only if other arguments can change the result.
type instances struct {
	mu        sync.Mutex
	all       []instance
	variables map[string]bool // variables that change sources or versions, in the directory or in modules that it calls
}

// instance is the result of reading a directory with one set of arguments.
type instance struct {
	variables []string // variables that change sources or versions
	args      map[string]tfconfig.Arg
	*node
	err error
}

// matches reports whether a call with args has the same result, in the directory and in the modules that it passes variables to.
func (i instance) matches(args map[string]tfconfig.Arg, passed map[string]bool) bool {
	differs := func(name string) bool {
		a, b := i.args[name], args[name]
		return string(a.Value) != string(b.Value) || a.Dynamic != b.Dynamic
	}
	for name := range passed {
		if differs(name) {
			return false
		}
	}
	return !slices.ContainsFunc(i.variables, differs)
}

// visitDirectory returns the node of the directory in f. If the node is new, its calls are queued. It returns nil if the arguments
// are evaluated only in the next round.
func (r *walk) visitDirectory(ctx context.Context, t task, f Found, p *modproxy.Package) (*node, error) {
	at := dirKey{t.client, f.Module.Folded(), path.Join(".", p.Subdir, f.Subdir), t.isNamed() && f.Subdir == "."}
	r.mu.Lock()
	if r.directories[at] == nil {
		r.directories[at] = &instances{}
	}
	here := r.directories[at]
	r.mu.Unlock()
	here.mu.Lock()
	defer here.mu.Unlock()
	passed := r.passedOn(at)
	if here.variables == nil {
		here.variables = map[string]bool{}
	}
	maps.Copy(here.variables, passed)
	if r.passOn(t, here.variables) {
		return nil, nil
	}
	for _, w := range here.all {
		if w.matches(t.call.Args, passed) {
			return w.node, w.err
		}
	}
	if len(here.all) == maxInstances {
		return nil, fmt.Errorf("it is called with more than %d sets of arguments", maxInstances)
	}
	tree := tfconfig.PackageTree(p.Digest, func() (io.ReadCloser, error) { return r.Registry.Package(ctx, f.Module) })
	c, err := r.Reader.Read(ctx, tree, tfconfig.Options{
		Client: t.client, Dir: at.dir, Vars: t.call.Args, Passed: passed, Submodules: at.all, CallsOnly: r.CallsOnly,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		here.all = append(here.all, instance{args: t.call.Args, err: err})
		return nil, err
	}
	for _, name := range c.Variables {
		here.variables[name] = true
	}
	if r.passOn(t, here.variables) {
		return nil, nil
	}
	w := instance{c.Variables, t.call.Args, &node{
		module: f.Module, chain: f.Chain, providers: c.Providers, at: at, variables: c.Variables, from: t.from, args: t.call.Args,
	}, nil}
	here.all = append(here.all, w)
	for _, problem := range c.Problems {
		r.tell(problem.Place(), Found{
			Kind: Trouble, Client: t.client, Chain: append(slices.Clip(f.Chain), Step{f.Module, problem.Pos}), Module: f.Module,
			Subdir: f.Subdir, Err: errors.New(problem.Text),
		})
	}
	for _, call := range c.Calls {
		r.follow(ctx, task{client: t.client, from: w.node, call: call})
	}
	return w.node, nil
}

// passedOn returns the variables that change sources or versions in the modules that the directory at calls, as far as they are known.
func (r *walk) passedOn(at dirKey) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.passed[at])
}

// passOn adds to r.passed the variables of the caller on which the arguments of t for variables depend. It does the same for the first
// caller of the caller, and so on. It reports whether the call has to wait for the next round, because an argument was not evaluated in
// this round.
func (r *walk) passOn(t task, variables map[string]bool) (later bool) {
	for name, arg := range t.call.Args {
		later = later || arg.Skipped && variables[name] && !r.last
	}
	r.mu.Lock()
	grown := false
	for n, args := t.from, t.call.Args; n.from != nil && len(variables) > 0; n, args = n.from, n.args {
		added := map[string]bool{}
		for name, arg := range args {
			if !variables[name] {
				continue
			}
			for _, of := range arg.Inputs {
				if _, counts := slices.BinarySearch(n.variables, of); !counts && !r.passed[n.at][of] {
					added[of] = true
				}
			}
		}
		if len(added) > 0 && r.passed[n.at] == nil {
			r.passed[n.at] = map[string]bool{}
		}
		maps.Copy(r.passed[n.at], added)
		variables, grown = added, grown || len(added) > 0
	}
	r.grown = r.grown || grown
	r.mu.Unlock()
	if grown && r.last {
		r.tell("", Found{Kind: Trouble, Client: t.client, Chain: t.from.chain, Module: t.from.module, Subdir: t.from.at.dir, Err: fmt.Errorf(
			"%s: its variables pass through more packages than %d rounds can follow; modules that depend on them may be missing",
			t.from.module, maxRounds)})
	}
	return later
}

// tellCycles reports modules that call themselves, directly or through others.
func (r *walk) tellCycles() {
	depths := map[tfconfig.Client]map[*node]int{tfconfig.Terraform: {}, tfconfig.OpenTofu: {}}
	for _, root := range r.roots {
		depth := depths[root.client] // position in stack, from 1; negative after the visit
		var stack []*node
		var visit func(n *node, chain []Step)
		visit = func(n *node, chain []Step) {
			stack = append(stack, n)
			depth[n] = len(stack)
			slices.SortFunc(n.edges, func(a, b edge) int {
				return slices.CompareFunc(a.steps, b.steps, func(a, b Step) int { return a.Pos.Compare(b.Pos) })
			})
			for _, e := range n.edges {
				chain := append(chain[:len(chain):len(chain)], e.steps...)
				switch at := depth[e.to]; {
				case at == 0:
					visit(e.to, chain)
				case at > 0:
					r.tell("", Found{Kind: Trouble, Client: root.client, Chain: chain, Module: e.to.module, Err: circle(stack[at-1:])})
				}
			}
			stack = stack[:len(stack)-1]
			depth[n] = -1
		}
		visit(root.node, nil)
	}
}

// circle is the error of modules that call each other in a circle, in the order of the calls.
func circle(nodes []*node) error {
	if len(nodes) == 1 {
		return fmt.Errorf("%s calls itself", nodes[0].module)
	}
	text := nodes[0].module.String() + " calls itself, through "
	for i, n := range nodes[1:min(len(nodes), 5)] {
		if i > 0 {
			text += ", "
		}
		text += n.module.String()
	}
	if more := len(nodes) - 5; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return errors.New(text)
}
