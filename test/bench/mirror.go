package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The calls that are mirrored, and of how many packages they are.
const (
	mirrorCalls    = 96
	mirrorPackages = 23
)

// wayAlone is through a cold proxy that asks for nothing by itself.
const wayAlone = "cold proxy, no read-ahead"

// mirrorReport is what it takes to fill a proxy that has nothing, beside an installation without it.
type mirrorReport struct {
	Client   string      `json:"client"`
	Calls    int         `json:"calls"`
	Packages int         `json:"packages"`
	Ways     []wayReport `json:"ways"`
	Goals    []goal      `json:"goals"`
}

func (r *report) addMirror(client string, ways []*way) {
	m := mirrorReport{Client: client, Calls: mirrorCalls, Packages: mirrorPackages}
	for _, w := range ways {
		m.Ways = append(m.Ways, w.report(mirrorPackages))
	}
	m.Goals = []goal{
		ratioOf(ways, wayCold, wayRegistry, 0.3),
		ratioOf(ways, wayAlone, wayRegistry, 0),
		ratioOf(ways, wayCold, wayAlone, 0),
		ratioOf(ways, "mirror", wayRegistry, 0.3),
	}
	r.Mirrors = append(r.Mirrors, m)
}

func (m *mirrorReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s get of %d calls of %d packages, in %d levels, and modproxy mirror of the same:\n%s\n\n",
		m.Client, m.Calls, m.Packages, len(nestedLevels), lineText(newConnection))
	writeWays(w, m.Ways)
	writeGoals(w, m.Goals)
}

// measureMirror installs nested modules from the registry and git and through cold proxies, which ask for what packages
// call before the client does, or not, and mirrors the same, in turns.
func (b *bench) measureMirror(ctx context.Context, r *report) error {
	top := nestedTop()
	for _, c := range b.clients {
		ways := []*way{
			{name: wayRegistry, modules: top, registry: b.up.registryURL + "/v1/modules/"},
			{name: wayCold, modules: top, proxied: true, cold: true},
			{name: wayAlone, modules: top, proxied: true, cold: true, env: []string{"MODPROXY_CACHE_READ_AHEAD=false"}},
		}
		if err := b.measureWays(ctx, c, ways); err != nil {
			return err
		}
		if err := b.countProcesses(ctx, c, ways); err != nil {
			return err
		}
		mirror := &way{name: "mirror"}
		for turn := range b.runs {
			if err := b.startProxy(ctx); err != nil {
				return err
			}
			b.up.reset()
			took, err := b.mirror(ctx)
			if err != nil {
				return err
			}
			mirror.seconds, mirror.upstream = append(mirror.seconds, took.Seconds()), b.up.count()
			b.say("mirror, %d of %d: %.2f s", turn+1, b.runs, mirror.seconds[turn])
		}
		r.addMirror(c.name, append(ways, mirror))
	}
	return nil
}

// sourceOf returns the arguments of a module block for a module of the registry.
func sourceOf(_ int, m module) string {
	return fmt.Sprintf("source = %q\n  version = %q", registryHost+"/"+m.address(), m.version)
}

// mirror has the proxy fetch the nested modules, and returns how long that took.
func (b *bench) mirror(ctx context.Context) (time.Duration, error) {
	dir, err := os.MkdirTemp(b.scratch, "mirror-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var names []string
	for _, m := range nestedTop() {
		names = append(names, m.name)
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(nestedBlocks(names)), 0o600); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = b.verbSays(ctx, fmt.Sprintf("%d packages fetched", mirrorPackages), "mirror", dir)
	return time.Since(begin), err
}
