package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// startProxy starts an empty modproxy with additional environment.
func (b *bench) startProxy(ctx context.Context, env ...string) error {
	if err := b.stopProxy(); err != nil {
		return err
	}
	var err error
	if b.proxyDir, err = os.MkdirTemp(b.data, "proxy-"); err != nil {
		return err
	}
	if b.proxy, err = b.runProxy(b.proxyDir, "", env...); err != nil {
		return err
	}
	b.proxyURL, err = b.proxy.URL(ctx)
	return err
}

// runProxy starts a modproxy with its files in dir, and with additional configuration and environment.
func (b *bench) runProxy(dir, more string, env ...string) (*rig.Process, error) {
	file, err := b.writeConfig(dir, more)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(b.modproxy, "serve", "--config", file)
	cmd.Env = slices.Concat([]string{"PATH=" + os.Getenv("PATH")}, b.proxyEnv, env)
	return rig.Start(cmd, filepath.Join(dir, "log"))
}

// writeConfig writes the configuration of a modproxy with its files in dir, with more, and returns the file.
func (b *bench) writeConfig(dir, more string) (file string, err error) {
	config := fmt.Sprintf(`listen: 127.0.0.1:0
data: %[1]s
upstreams: [{host: %[2]s, modules: %[3]s/v1/modules/, providers: %[3]s/v1/providers/}]
egress: {allow: [127.0.0.0/8], ca_file: %[4]s}
%[5]s`, filepath.Join(dir, "data"), registryHost, b.up.registryURL, b.up.registry.CAFile, more)
	file = filepath.Join(dir, "modproxy.yaml")
	return file, os.WriteFile(file, []byte(config), 0o600)
}

// startBeside starts another proxy, which runs until the end. If it checks tokens, requests to it have one.
func (b *bench) startBeside(ctx context.Context, name, more string) (s server, err error) {
	dir, err := os.MkdirTemp(b.data, "beside-")
	if err != nil {
		return s, err
	}
	s.name = name
	if strings.Contains(more, withTokens) {
		if _, err := b.writeConfig(dir, more); err != nil {
			return s, err
		}
		if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
			return s, err
		}
		out, err := b.verb(ctx, dir, "token", "create", "bench", "--scope", "*", "--expires", "never")
		if err != nil {
			return s, err
		}
		token, _, _ := strings.Cut(out, "\n")
		s.header = []string{"Authorization", "Bearer " + token}
	}
	p, err := b.runProxy(dir, more)
	if err != nil {
		return s, err
	}
	b.servers = append(b.servers, p)
	s.pids = func() []int { return family(p.ID()) }
	s.url, err = p.URL(ctx)
	return s, err
}

// Keys of the configuration.
const (
	withTokens = "auth: {required: true}\n"
	withoutLog = "log: {level: error}\n"
	// Documents on the hot path and in pairs are not refreshed during the measurement.
	longFresh = "cache: {fresh: 24h}\n"
)

// stopProxy ends the proxy, if it is running, and removes its data.
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

// ask returns the answer of one of the servers here, with its body as sent.
func ask(ctx context.Context, address, coding string) (answer, error) {
	return server{}.ask(ctx, address, coding)
}

// ask requests a URL from the server.
func (s server) ask(ctx context.Context, address, coding string) (answer, error) {
	a := rig.Get(ctx, address, append([]string{"Accept-Encoding", coding}, s.header...)...)
	if a.Err != nil || a.Status/100 != 2 {
		return answer{}, fmt.Errorf("%s: %v", address, a)
	}
	return answer{
		status: a.Status, coding: a.Header.Get("Content-Encoding"), location: a.Header.Get("X-Terraform-Get"),
		header: a.Header, body: a.Body,
	}, nil
}

// answer is an answer of a server.
type answer struct {
	status   int
	coding   string // Content-Encoding
	location string // X-Terraform-Get
	header   http.Header
	body     []byte
}

// copied is an answer of the proxy, with its path.
type copied struct {
	path string
	answer
	gzipped *answer // for clients that accept gzip, if it differs
}

// packagePath is the path of a module's package in the answer of a server.
func (s server) packagePath(ctx context.Context, m module) (string, error) {
	a, err := s.ask(ctx, s.url+m.path("download"), "identity")
	if err != nil {
		return "", err
	}
	u, err := url.Parse(a.location)
	if err != nil || !strings.HasSuffix(u.Path, m.path("package")) { // after the signature
		return "", fmt.Errorf("%s %s is at %q, not at %s: %w", m.address(), m.version, a.location, m.path("package"), err)
	}
	return u.Path, nil
}

// copyAnswers requests everything about modules from a proxy. Locations become paths.
func (b *bench) copyAnswers(ctx context.Context, s server, modules []module) ([]copied, error) {
	var all []copied
	for _, m := range modules {
		at, err := s.packagePath(ctx, m)
		if err != nil {
			return nil, err
		}
		for _, path := range []string{m.path("versions"), m.path("download"), at} {
			a, err := s.ask(ctx, s.url+path, "identity")
			if err != nil {
				return nil, err
			}
			c := copied{path: path, answer: a}
			if a.location != "" {
				c.location = at
			} else if gzipped, err := s.ask(ctx, s.url+path, "gzip"); err != nil {
				return nil, err
			} else if gzipped.coding == "gzip" {
				c.gzipped = &gzipped
			}
			all = append(all, c)
		}
	}
	return all, nil
}
