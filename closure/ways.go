package closure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
)

// place is a directory of a package as a client reads it.
type place struct {
	client Client
	module modproxy.ModuleVersion // folded
	dir    string
	all    bool // with its submodules
}

// ways are the ways in which a directory was called. It is read again only if that may make a difference.
type ways struct {
	mu  sync.Mutex
	all []way
}

// way is what a directory calls if it is called with some arguments.
type way struct {
	variables []string // that make a difference
	args      map[string]Arg
	*node
	err error
}

// fits reports whether it makes no difference to call with args.
func (w way) fits(args map[string]Arg) bool {
	return !slices.ContainsFunc(w.variables, func(name string) bool {
		a, b := w.args[name], args[name]
		return string(a.Value) != string(b.Value) || a.Dynamic != b.Dynamic
	})
}

// enter returns the node of the directory that f has, and has the calls in it followed if it is new.
func (r *walk) enter(ctx context.Context, t task, f Found, p *modproxy.Package) (*node, error) {
	at := place{t.client, f.Module.Folded().At(f.Module.Version), path.Join(".", p.Subdir, f.Subdir), t.isNamed() && f.Subdir == "."}
	r.mu.Lock()
	if r.places[at] == nil {
		r.places[at] = &ways{}
	}
	here := r.places[at]
	r.mu.Unlock()
	here.mu.Lock()
	defer here.mu.Unlock()
	for _, w := range here.all {
		if w.fits(t.call.Args) {
			return w.node, w.err
		}
	}
	if len(here.all) == maxWays {
		return nil, fmt.Errorf("it is called with other arguments in more than %d ways", maxWays)
	}
	tree := Package(p.Digest, func() (io.ReadCloser, error) { return r.Registry.Package(ctx, f.Module) })
	c, err := r.Reader.Read(ctx, tree, Options{
		Client: t.client, Dir: at.dir, Vars: t.call.Args, Submodules: at.all, CallsOnly: r.CallsOnly,
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		here.all = append(here.all, way{args: t.call.Args, err: err})
		return nil, err
	}
	w := way{c.Variables, t.call.Args, &node{module: f.Module, chain: f.Chain, providers: c.Providers}, nil}
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

// tellCycles tells which modules call themselves, with others between.
func (r *walk) tellCycles() {
	depths := map[Client]map[*node]int{Terraform: {}, OpenTofu: {}}
	for _, root := range r.roots {
		depth := depths[root.client] // in stack, from 1; negative when it was left
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

// circle is the error of modules of which each calls the next, and the last the first.
func circle(nodes []*node) error {
	if len(nodes) == 1 {
		return fmt.Errorf("%s calls itself", nodes[0].module)
	}
	text := nodes[0].module.String() + " calls itself, by "
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
