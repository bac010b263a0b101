package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
)

// A maker builds a program in one version.
type maker interface {
	make(ctx context.Context, version, path string) error
	file(path string) string // of the program, below the result of make
}

// goModule builds a program from a Go module. The checksum database verifies the module.
type goModule struct {
	path, main string
	// remoteState removes the backends that store state at cloud providers. They are separate modules that cannot be
	// downloaded, and take most of the time to compile. They are not used to install modules.
	remoteState bool
	// experiments are the values of GOEXPERIMENT that the sources need.
	experiments string
}

func (goModule) file(path string) string { return path }

var (
	backend  = regexp.MustCompile(`(?m)^.*\bbackend(Azure|Consul|Cos|GCS|Kubernetes|OCI|OSS|Oci|Pg|S3)\b.*\n`)
	internal = regexp.MustCompile(`(?m)^.*github\.com/\w+/\w+/internal/.*\n`)
)

func (g goModule) make(ctx context.Context, version, path string) error {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", g.path+"@v"+version)
	cmd.Dir = os.TempDir() // outside a module
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if json.Unmarshal(out, &found) != nil || err != nil {
		return fmt.Errorf("go mod download: %v %s", err, found.Error)
	}
	dir, flags := found.Dir, []string{"build", "-trimpath"}
	if g.remoteState {
		if dir, err = os.MkdirTemp("", "clients-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.CopyFS(dir, os.DirFS(found.Dir)); err != nil {
			return err
		}
		for name, lines := range map[string]*regexp.Regexp{"internal/backend/init/init.go": backend, "go.mod": internal} {
			if err := cut(filepath.Join(dir, name), lines); err != nil {
				return err
			}
		}
		flags = append(flags, "-mod=mod", "-ldflags=-s -w -X "+g.path+"/version.dev=no")
	}
	made := unfinished(path)
	defer os.Remove(made) // fails after the rename
	cmd = exec.CommandContext(ctx, "go", append(flags, "-o", made, g.main)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if g.experiments != "" {
		cmd.Env = append(cmd.Env, "GOEXPERIMENT="+g.experiments)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out[max(0, len(out)-2000):])
	}
	return os.Rename(made, path)
}

// unfinished returns the name of a program while this process builds it. Other processes may build it at the same time.
func unfinished(path string) string { return fmt.Sprintf("%s.%d.new", path, os.Getpid()) }

// cut removes lines from a file.
func cut(name string, lines *regexp.Regexp) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	rest := lines.ReplaceAll(text, nil)
	if bytes.Equal(rest, text) {
		return nil
	}
	if err := os.Chmod(name, 0o600); err != nil {
		return err
	}
	return os.WriteFile(name, rest, 0o600)
}

// npm builds a directory with an npm package, its dependencies, and the Node.js that it needs. It runs no scripts of
// packages.
type npm struct{ name string }

// node is the npm package of Node.js.
var node = "node-linux-" + map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]

func (n npm) file(path string) string {
	return filepath.Join(path, "node_modules", n.name, "dist", n.name+".js")
}

func (n npm) make(ctx context.Context, version, path string) error {
	made := unfinished(path)
	defer os.RemoveAll(made)
	if err := os.MkdirAll(made, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix=.", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund",
		n.name+"@"+version, node+"@24")
	cmd.Dir = made
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install: %w: %s", err, out[max(0, len(out)-2000):])
	}
	if _, err := os.Stat(n.file(path)); err == nil {
		return nil // another process was faster
	}
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	return os.Rename(made, path)
}
