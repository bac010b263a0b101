package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// way is a way in which a client gets packages.
type way struct {
	name     string
	modules  []module                     // called by the configuration
	sources  func(i int, m module) string // the arguments of the i-th module block
	registry string                       // URL of the registry for the client; empty: none
	proxied  bool                         // through the proxy
	cold     bool                         // which is empty at first
	env      []string                     // of a cold proxy

	upstream  map[string]int // requests to it in the last run
	seconds   []float64
	spent     []spent // by a cold proxy
	processes int     // processes of git that it ran
}

const (
	wayGit      = "git::"
	wayRegistry = "registry and git"
	wayCold     = "cold proxy"
	wayWarm     = "warm proxy"
	wayNginx    = "nginx"
)

// coldBy is the name of the way through a cold proxy, by the form of locations.
var coldBy = map[form]string{
	byCommit: wayCold + ", commit", byTag: wayCold + ", tag", byArchive: wayCold + ", archive",
}

// measureClients installs all modules in every way, in turns, with and without a cost of new connections.
func (b *bench) measureClients(ctx context.Context, r *report) error {
	if err := b.startProxy(ctx); err != nil {
		return err
	}
	byForm := map[form][]module{}
	for f := range coldBy {
		all, _ := b.up.installed(f)
		byForm[f] = all[:b.modules]
	}
	modules, locations := b.up.installed(byCommit)
	modules = modules[:b.modules]
	b.say("filling nginx with %d packages", len(modules))
	answers, err := b.copyAnswers(ctx, server{url: b.proxyURL}, modules)
	if err != nil {
		return err
	}
	n, err := b.startNginx(ctx, answers)
	if err != nil {
		return err
	}
	defer b.up.line.connect.Store(int64(newConnection))
	for _, c := range b.clients {
		atLocation := func(i int, _ module) string { return fmt.Sprintf("source = %q", locations[i]) }
		for _, connect := range []time.Duration{newConnection, 0} {
			ways := []*way{
				{name: wayGit, modules: modules, sources: atLocation},
				{name: wayRegistry, modules: modules, registry: b.up.registryURL + "/v1/modules/"},
				{name: coldBy[byArchive], modules: byForm[byArchive], proxied: true, cold: true},
				{name: coldBy[byTag], modules: byForm[byTag], proxied: true, cold: true},
				{name: coldBy[byCommit], modules: modules, proxied: true, cold: true},
				{name: wayWarm, modules: modules, proxied: true},
				{name: wayNginx, modules: modules, registry: n.disk + "/" + registryHost + "/v1/modules/"},
			}
			b.up.line.connect.Store(int64(connect))
			b.say("%s: a new connection takes %v", c.name, connect)
			if err := b.measureWays(ctx, c, ways); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if err := b.countProcesses(ctx, c, ways); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			r.addClient(c.name, b.up.repos, connect, ways)
		}
	}
	return nil
}

// measureWays installs modules in every way, in turns.
func (b *bench) measureWays(ctx context.Context, c client, ways []*way) error {
	for turn := range b.runs {
		var first string
		for _, w := range ways {
			if w.cold {
				if err := b.startProxy(ctx, w.env...); err != nil {
					return err
				}
			}
			if w.proxied {
				w.registry = b.proxyURL + "/" + registryHost + "/v1/modules/"
			}
			b.up.reset()
			stop := func() spent { return spent{} }
			if w.cold {
				stop = watch(b.proxy.ID())
			}
			took, content, err := b.install(ctx, c, w)
			used := stop()
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			if w.cold {
				w.spent = append(w.spent, used)
			}
			w.seconds, w.upstream = append(w.seconds, took.Seconds()), b.up.count()
			b.say("%s get, %s, %d of %d: %.2f s", c.name, w.name, turn+1, b.runs, took.Seconds())
			if first == "" {
				first = content
			}
			if content != first {
				return fmt.Errorf("%s installs other files than %s", w.name, ways[0].name)
			}
			if n := w.upstream; (w.name == wayWarm || w.name == wayNginx) && len(n) > 0 {
				return fmt.Errorf("%s: upstream was asked: %v", w.name, n)
			}
			if n := b.up.connections(); n > 0 {
				w.upstream["connections"], w.upstream["KB"] = n, int(b.up.line.down.total()/1000)
			}
		}
	}
	return nil
}

// install installs the modules of a way into an empty directory. It returns the duration and the digest of the files.
func (b *bench) install(ctx context.Context, c client, w *way) (time.Duration, string, error) {
	dir, err := os.MkdirTemp(b.scratch, "client-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	i := &rig.Installation{Dir: dir, Calls: map[string]string{}, Registries: map[string]string{}, CAFile: b.up.registry.CAFile}
	sources := w.sources
	if sources == nil {
		sources = sourceOf
	}
	for n, m := range w.modules {
		i.Calls[fmt.Sprint("m", n)] = sources(n, m)
	}
	if w.registry != "" {
		i.Registries[registryHost] = w.registry
	}
	begin := time.Now()
	installed, err := i.Get(ctx, c.path)
	if err != nil {
		return 0, "", err
	}
	took := time.Since(begin)
	content, err := digest(installed)
	return took, content, err
}

// digest lists the files below dir, without git's own files and the list of modules, which has the sources.
func digest(dir string) (string, error) {
	files := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == ".git":
			return fs.SkipDir
		case !d.Type().IsRegular() || filepath.Dir(name) == dir:
			return nil
		}
		data, err := os.ReadFile(name)
		files[strings.TrimPrefix(name, dir)] = sha256.Sum256(data)
		return err
	})
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%x %s\n", files[name], name)
	}
	return fmt.Sprintf("%d files %x", len(files), h.Sum(nil)), err
}
