package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The calls that are mirrored, and of how many packages they are.
const (
	mirrorCalls    = 96
	mirrorPackages = 23
)

// mirrorReport is what it takes to fill a proxy that has nothing, beside an installation without it.
type mirrorReport struct {
	Client   string      `json:"client"`
	Calls    int         `json:"calls"`
	Packages int         `json:"packages"`
	Ways     []wayReport `json:"ways"`
	Ratio    float64     `json:"mirror_to_registry_git"`
}

// measureMirror mirrors what a client installs from the registry and git, in turns.
func (b *bench) measureMirror(ctx context.Context, r *report) error {
	installed, _ := b.up.installed()
	var modules []module
	for i := range mirrorCalls {
		modules = append(modules, installed[i%mirrorPackages])
	}
	for _, c := range b.clients {
		direct := &way{name: wayRegistry, sources: sourceOf, registry: b.up.registryURL + "/v1/modules/"}
		mirror := &way{name: "mirror"}
		for turn := range b.runs {
			b.up.reset()
			took, _, err := b.install(ctx, c, modules, direct)
			if err != nil {
				return fmt.Errorf("%s: %w", direct.name, err)
			}
			direct.seconds, direct.upstream = append(direct.seconds, took.Seconds()), b.up.count()
			if err := b.startProxy(ctx); err != nil {
				return err
			}
			b.up.reset()
			if took, err = b.mirror(ctx, modules); err != nil {
				return err
			}
			mirror.seconds, mirror.upstream = append(mirror.seconds, took.Seconds()), b.up.count()
			b.say("%s get, %d of %d: %.2f s; mirror: %.2f s", c.name, turn+1, b.runs, direct.seconds[turn], mirror.seconds[turn])
		}
		r.Mirrors = append(r.Mirrors, mirrorReport{
			Client: c.name, Calls: mirrorCalls, Packages: mirrorPackages, Ways: []wayReport{direct.report(), mirror.report()},
			Ratio: median(mirror.seconds) / median(direct.seconds),
		})
	}
	return nil
}

// sourceOf returns the arguments of a module block for a module of the registry.
func sourceOf(_ int, m module) string {
	return fmt.Sprintf("source = %q\n  version = %q", registryHost+"/"+m.address(), m.version)
}

// mirror has the proxy fetch what modules call, and returns how long that took.
func (b *bench) mirror(ctx context.Context, modules []module) (time.Duration, error) {
	dir, err := os.MkdirTemp(b.scratch, "mirror-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var code strings.Builder
	for n, m := range modules {
		fmt.Fprintf(&code, "module \"m%d\" {\n  %s\n}\n", n, sourceOf(n, m))
	}
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(code.String()), 0o600); err != nil {
		return 0, err
	}
	begin := time.Now()
	err = b.verbSays(ctx, fmt.Sprintf("%d packages fetched", mirrorPackages), "mirror", dir)
	return time.Since(begin), err
}
