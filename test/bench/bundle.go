package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// bulkPackages is the number of packages in a bundle; bulkLines is the number of lines of their files.
const (
	bulkPackages = 32
	bulkLines    = 60_000
)

// bundleReport has the costs of writing, importing and copying a bundle.
type bundleReport struct {
	Packages int         `json:"packages"`
	Bytes    int64       `json:"bytes"`
	Ways     []wayReport `json:"ways"`
}

// measureBundle exports stored packages, imports them elsewhere, and copies the bundle, in turns. Each result is flushed to the disk.
func (b *bench) measureBundle(ctx context.Context, r *report) error {
	if err := b.startProxy(ctx); err != nil {
		return err
	}
	bundle, copied := filepath.Join(b.data, "a.bundle"), filepath.Join(b.data, "copied")
	if _, err := b.verb(ctx, b.proxyDir, "mirror", "--all-versions", bulk.address()); err != nil {
		return err
	}
	key, err := b.verb(ctx, b.proxyDir, "ledger", "key")
	if err != nil {
		return err
	}
	ways := []*way{{name: "export"}, {name: "import"}, {name: "cp and sync"}}
	out := &bundleReport{Packages: bulkPackages}
	for turn := range b.runs {
		to, err := os.MkdirTemp(b.data, "imported-")
		if err != nil {
			return err
		}
		for i, do := range []func() error{
			func() error { return b.verbSays(ctx, fmt.Sprintf("%d packages", bulkPackages), "export", bundle) },
			func() error {
				return b.verbSays(ctx, fmt.Sprintf("%d added", bulkPackages), "import", "--data", to, "--key", strings.TrimSpace(key), bundle)
			},
			func() error { return copyFile(copied, bundle) },
		} {
			begin := time.Now()
			if err := do(); err != nil {
				return err
			}
			ways[i].seconds = append(ways[i].seconds, time.Since(begin).Seconds())
			b.say("%s, %d of %d: %.2f s", ways[i].name, turn+1, b.runs, ways[i].seconds[turn])
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	info, err := os.Stat(bundle)
	if err != nil {
		return err
	}
	out.Bytes = info.Size()
	for _, w := range ways {
		out.Ways = append(out.Ways, w.report(bulkPackages))
	}
	r.Bundle = out
	return nil
}

// verb runs a verb of modproxy with the configuration of a proxy in dir, and returns its output.
func (b *bench) verb(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, b.modproxy, append(args, "--config", filepath.Join(dir, "modproxy.yaml"))...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, b.proxyEnv...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("modproxy %s: %w\n%s", args[0], err, out)
	}
	return string(out), nil
}

// verbSays runs a verb whose output must contain want.
func (b *bench) verbSays(ctx context.Context, want string, args ...string) error {
	out, err := b.verb(ctx, b.proxyDir, args...)
	if err == nil && !strings.Contains(out, want) {
		err = fmt.Errorf("modproxy %s: want %s\n%s", args[0], want, out)
	}
	return err
}

// copyFile copies a file as cp does, and flushes the copy.
func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return err
}
