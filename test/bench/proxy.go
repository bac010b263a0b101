package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/modproxy/modproxy/test/rig"
)

// startProxy starts a modproxy that has nothing yet.
func (b *bench) startProxy(ctx context.Context) error {
	if err := b.stopProxy(); err != nil {
		return err
	}
	var err error
	if b.proxyDir, err = os.MkdirTemp(b.data, "proxy-"); err != nil {
		return err
	}
	if b.proxy, err = b.runProxy(b.proxyDir, ""); err != nil {
		return err
	}
	b.proxyURL, err = b.proxy.URL(ctx)
	return err
}

// runProxy starts a modproxy with its files in dir, and with more configuration.
func (b *bench) runProxy(dir, more string) (*rig.Process, error) {
	config := fmt.Sprintf(`listen: 127.0.0.1:0
data: %[1]s
upstreams: [{host: %[2]s, modules: %[3]s/v1/modules/, providers: %[3]s/v1/providers/}]
egress: {allow: [127.0.0.0/8], ca_file: %[4]s}
%[5]s`, filepath.Join(dir, "data"), registryHost, b.up.registryURL, b.up.registry.CAFile, more)
	file := filepath.Join(dir, "modproxy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.modproxy, "serve", "--config", file)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, b.proxyEnv...)
	return rig.Start(cmd, filepath.Join(dir, "log"))
}

// stopProxy ends the proxy, if one runs, and removes what it kept.
func (b *bench) stopProxy() error {
	if b.proxy == nil {
		return nil
	}
	err := b.proxy.Stop()
	b.proxy = nil
	if err != nil {
		return err
	}
	return os.RemoveAll(b.proxyDir)
}

// ask returns the answer of one of the servers here, with its body as it was sent.
func ask(ctx context.Context, address, coding string) (answer, error) {
	a := rig.Get(ctx, address, "Accept-Encoding", coding)
	if a.Err != nil || a.Status/100 != 2 {
		return answer{}, fmt.Errorf("%s: %v", address, a)
	}
	return answer{
		status: a.Status, kind: a.Header.Get("Content-Type"),
		coding: a.Header.Get("Content-Encoding"), location: a.Header.Get("X-Terraform-Get"), body: a.Body,
	}, nil
}

// answer is what a server said.
type answer struct {
	status   int
	kind     string // Content-Type
	coding   string // Content-Encoding
	location string // X-Terraform-Get
	body     []byte
}

// copied is an answer of the proxy, and where it was asked for.
type copied struct {
	path string
	answer
	gzipped []byte // the body for those who accept gzip, if there is one
}

// copyAnswers asks a proxy all about modules. Locations become paths.
func (b *bench) copyAnswers(ctx context.Context, proxy string, modules []module) ([]copied, error) {
	var all []copied
	for _, m := range modules {
		for _, question := range []string{"versions", "download", "package"} {
			a, err := ask(ctx, proxy+m.path(question), "identity")
			if err != nil {
				return nil, err
			}
			gzipped, err := ask(ctx, proxy+m.path(question), "gzip")
			if err != nil {
				return nil, err
			}
			if a.location != "" {
				u, err := url.Parse(a.location)
				if err != nil || u.Path != m.path("package") {
					return nil, fmt.Errorf("%s %s is at %q, not at %s: %w", m.address(), m.version, a.location, m.path("package"), err)
				}
				a.location = u.Path
			}
			c := copied{path: m.path(question), answer: a}
			if gzipped.coding == "gzip" {
				c.gzipped = gzipped.body
			}
			all = append(all, c)
		}
	}
	return all, nil
}
