package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Calls and packages of the mirrored configuration.
const (
	mirrorCalls    = 96
	mirrorPackages = 23
)

// wayAlone is the way through a cold proxy without read-ahead.
const wayAlone = "cold proxy, no read-ahead"

// mirrorReport has the costs of filling an empty proxy, in comparison with a direct installation.
type mirrorReport struct {
	Client   string      `json:"client"`
	Connect  float64     `json:"new_connection"`
	Calls    int         `json:"calls"`
	Packages int         `json:"packages"`
	Ways     []wayReport `json:"ways"`
	Goals    []goal      `json:"goals"`
}

func (r *report) addMirror(client string, connect time.Duration, ways []*way) {
	m := mirrorReport{Client: client, Connect: connect.Seconds(), Calls: mirrorCalls, Packages: mirrorPackages}
	for _, w := range ways {
		m.Ways = append(m.Ways, w.report(mirrorPackages))
	}
	m.Goals = []goal{
		ratioOf(ways, wayCold, wayRegistry, coldTarget(connect)),
		ratioOf(ways, wayAlone, wayRegistry, 0),
		ratioOf(ways, wayCold, wayAlone, 0),
		ratioOf(ways, "mirror", wayRegistry, coldTarget(connect)),
	}
	r.Mirrors = append(r.Mirrors, m)
}

func (m *mirrorReport) writeText(w io.Writer) {
	fmt.Fprintf(w, "\n%s get of %d calls of %d packages, in %d levels, and modproxy mirror of the same:\n%s\n\n",
		m.Client, m.Calls, m.Packages, len(nestedLevels), lineText(m.Connect))
	writeWays(w, m.Ways)
	writeGoals(w, m.Goals)
}

// measureMirror installs nested modules from the registry and git, and through cold proxies with and without read-ahead, and mirrors the
// same modules, in turns, with and without a cost of new connections.
func (b *bench) measureMirror(ctx context.Context, r *report) error {
	defer b.up.line.connect.Store(int64(newConnection))
	for _, c := range b.clients {
		for _, connect := range []time.Duration{newConnection, 0} {
			b.up.line.connect.Store(int64(connect))
			b.say("%s: a new connection takes %v", c.name, connect)
			ways, err := b.nestedWays(ctx, c)
			if err != nil {
				return err
			}
			r.addMirror(c.name, connect, ways)
		}
	}
	return nil
}

// nestedWays installs the nested modules in every way, and mirrors them.
func (b *bench) nestedWays(ctx context.Context, c client) ([]*way, error) {
	top := nestedTop()
	ways := []*way{
		{name: wayRegistry, modules: top, registry: b.up.registryURL + "/v1/modules/"},
		{name: wayCold, modules: top, proxied: true, cold: true},
		{name: wayAlone, modules: top, proxied: true, cold: true, env: []string{"MODPROXY_CACHE_READ_AHEAD=false"}},
	}
	if err := b.measureWays(ctx, c, ways); err != nil {
		return nil, err
	}
	if err := b.countProcesses(ctx, c, ways); err != nil {
		return nil, err
	}
	mirror := &way{name: "mirror"}
	for turn := range b.runs {
		if err := b.startProxy(ctx); err != nil {
			return nil, err
		}
		b.up.reset()
		took, err := b.mirror(ctx)
		if err != nil {
			return nil, err
		}
		mirror.seconds, mirror.upstream = append(mirror.seconds, took.Seconds()), b.up.count()
		b.say("mirror, %d of %d: %.2f s", turn+1, b.runs, mirror.seconds[turn])
	}
	return append(ways, mirror), nil
}

// sourceOf returns the arguments of a module block for a module of the registry.
func sourceOf(_ int, m module) string {
	return fmt.Sprintf("source = %q\n  version = %q", registryHost+"/"+m.address(), m.version)
}

// mirror lets the proxy fetch the nested modules, and returns the duration.
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
