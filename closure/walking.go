package closure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/tfconfig"
)

// walk is the state of one walk.
type walk struct {
	*Walker
	lists    flight.Memo[modproxy.Address, listed]
	packages flight.Memo[modproxy.Ref, *modproxy.Package]

	mu          sync.Mutex
	tasks       []task
	count       int // tasks so far
	working     int
	workers     sync.WaitGroup
	roots       []*root
	directories map[dirKey]*instances
	passed      map[dirKey]map[string]bool // variables that change sources or versions in the called modules, see Options.Passed
	grown       bool                       // passed has grown since the beginning of the round
	last        bool                       // no other round follows
	told        map[string]bool
	each        func(Found)
}

// task is a call to follow, or a provider to download.
type task struct {
	client tfconfig.Client
	from   *node
	call   tfconfig.Call

	provider modproxy.Address // the zero Address for a call
	required *required
	root     *root
}

// root is a configuration.
type root struct {
	client tfconfig.Client
	*node
	locks     map[modproxy.Address]string // from its lock file
	platforms []modproxy.Platform
}

// isNamed reports whether t is a module that the operator names. Which of its directories will be called is unknown.
func (t task) isNamed() bool { return t.call.Name == "" && t.from.module.Version == "" }

// node is a directory of a package, read with one set of arguments. A root has a node without a directory.
type node struct {
	module    modproxy.Ref
	chain     []Step // the first calls that lead to it
	edges     []edge
	providers []tfconfig.Requirement

	at        dirKey
	variables []string                // that change sources or versions in it
	from      *node                   // the caller in the first call that leads to it
	args      map[string]tfconfig.Arg // of that call
}

// edge is a call of a node, with the calls of directories that lead to it.
type edge struct {
	to    *node
	steps []Step
}

// listed are the versions of a module, with the spelling of the first request.
type listed struct {
	modproxy.Address
	*modproxy.Versions
}

// follow queues a call.
func (r *walk) follow(ctx context.Context, t task) {
	r.mu.Lock()
	r.count++
	over := r.count > maxFollow
	if !over {
		r.tasks = append(r.tasks, t)
		if r.working < cmp.Or(r.AtOnce, atOnce) {
			r.working++
			r.workers.Go(func() { r.work(ctx) })
		}
	}
	r.mu.Unlock()
	if over {
		r.tell("", Found{Kind: Trouble, Client: t.client, Chain: t.chain(),
			Err: fmt.Errorf("more than %d calls; this one, and those after it, are not followed", maxFollow)})
	}
}

// work follows queued calls until the queue is empty or ctx ends.
func (r *walk) work(ctx context.Context) {
	for {
		r.mu.Lock()
		if len(r.tasks) == 0 || ctx.Err() != nil {
			r.working--
			r.mu.Unlock()
			return
		}
		t := r.tasks[0]
		r.tasks = r.tasks[1:]
		r.mu.Unlock()
		r.visit(ctx, t)
	}
}

// tell reports f, unless the same result was reported for the place at.
func (r *walk) tell(at string, f Found) {
	key := fmt.Sprint(f.Kind, f.Client, f.Module.Folded(), f.Subdir, f.Err, at)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.told[key] {
		r.told[key] = true
		r.each(f)
	}
}

// chain returns the steps to a call, including the call.
func (t task) chain() []Step {
	chain := slices.Clip(t.from.chain)
	for _, at := range t.call.From {
		chain = append(chain, Step{t.from.module, at})
	}
	if t.call.Pos != (tfconfig.Pos{}) {
		chain = append(chain, Step{t.from.module, t.call.Pos})
	}
	return chain
}

// visit follows one call.
func (r *walk) visit(ctx context.Context, t task) {
	f := Found{Client: t.client, Chain: t.chain(), Source: tfconfig.RedactSource(t.call.Source), Constraint: t.call.Version}
	at := fmt.Sprint(f.Chain[max(0, len(f.Chain)-1):])
	tell := func(kind FoundKind, err error) {
		f.Kind, f.Err = kind, err
		r.tell(at, f)
	}
	defer func() {
		if v := recover(); v != nil {
			tell(Trouble, modproxy.Fault(v))
		}
	}()
	if t.required != nil {
		r.provide(ctx, t)
		return
	}
	m, subdir, registry := tfconfig.ParseRegistrySource(t.call.Source, tfconfig.DefaultHosts[t.client])
	target, local := tfconfig.ParseLocalSource(path.Dir(t.call.File), t.call.Source)
	switch {
	case len(f.Chain) > cmp.Or(r.Depth, maxDepth):
		tell(Trouble, fmt.Errorf("more than %d modules call each other", cmp.Or(r.Depth, maxDepth)))
		return
	case t.call.Dynamic != "":
		f.Dynamic = true
		tell(Bypass, errors.New(t.call.Dynamic))
		return
	case local && (target == ".." || strings.HasPrefix(target, "../")):
		tell(Trouble, fmt.Errorf("module %.80q: its source %.200q is outside the package, where clients do not look", t.call.Name, t.call.Source))
		return
	case local:
		tell(Trouble, fmt.Errorf("module %.80q: no configuration in %.200q", t.call.Name, target))
		return
	case !registry:
		if v, dir, ok := r.nested(t); ok {
			at, f.Module, f.Subdir = "", v, dir
			r.install(ctx, t, f, tell)
		} else {
			tell(Bypass, errors.New("its source is not a module of a registry"))
		}
		return
	}
	m, err := r.Routes.Upstream(m)
	if err != nil {
		tell(Bypass, err)
		return
	}
	f.Module, f.Subdir = m.At(""), subdir
	list, err := r.versions(ctx, m)
	if err != nil {
		at = "" // report it once for all calls
		tell(Trouble, err)
		return
	}
	version, err := ChooseModule(t.client, list.List, t.call.Version)
	if err != nil {
		tell(Trouble, fmt.Errorf("%s: %w", list.Address, err))
		return
	}
	at, f.Module = "", list.Address.At(version)
	r.install(ctx, t, f, tell)
}

// nested returns the version that a call in a package installs without a registry.
func (r *walk) nested(t task) (v modproxy.Ref, subdir string, ok bool) {
	if r.Nested == nil || t.from.module.Version == "" || t.call.Variable || tfconfig.IsExampleOrTest(path.Dir(t.call.File)) {
		return v, "", false
	}
	v, subdir, ok = r.Nested.Source(t.from.module, t.call.Source)
	return v, path.Clean(subdir), ok
}

// install downloads the package of a chosen version and follows its calls.
func (r *walk) install(ctx context.Context, t task, f Found, tell func(FoundKind, error)) {
	tell(Chosen, nil)
	p, err := r.bring(ctx, f)
	if err != nil {
		tell(Trouble, err)
		return
	}
	if r.MayRead != nil {
		if err := r.MayRead(f.Module.Address); err != nil {
			tell(Trouble, fmt.Errorf("%s: its calls are not followed: %w", f.Module, err))
			return
		}
	}
	to, err := r.visitDirectory(ctx, t, f, p)
	switch {
	case err != nil:
		tell(Trouble, fmt.Errorf("%s: %w", f.Module, err))
		return
	case to == nil:
		return
	}
	r.mu.Lock()
	t.from.edges = append(t.from.edges, edge{to, f.Chain[len(t.from.chain):]})
	r.mu.Unlock()
}

// versions returns the versions of a module. It requests them once.
func (r *walk) versions(ctx context.Context, m modproxy.Address) (listed, error) {
	return r.lists.Do(m.Folded(), func() (listed, error) {
		v, err := r.Registry.Versions(ctx, m)
		return listed{m, v}, err
	})
}

// bring downloads the package of a version into the cache. It requests it once.
func (r *walk) bring(ctx context.Context, f Found) (*modproxy.Package, error) {
	return r.packages.Do(f.Module.Folded(), func() (*modproxy.Package, error) {
		p, err := r.Registry.Package(ctx, f.Module)
		if err != nil {
			return nil, err
		}
		f.Kind = Ready
		r.tell("", f)
		return p, p.Close()
	})
}
