package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/rig"
)

// A proxy is a running modproxy.
type proxy struct {
	program string
	url     string
	env     []string
	server  *rig.Process
	host    string // in the addresses of modules
	isOwn   bool   // the modules are own modules
}

// ownHost is the host of own modules.
const ownHost = "modules.example.com"

// address returns namespace/name/system of the module of r. Own modules have a namespace that no registry has.
func (p *proxy) address(r *repo) string {
	if p.isOwn {
		return "own-" + r.address
	}
	return r.address
}

// mapping returns the configuration in which the modules of repos are own modules.
func (p *proxy) mapping(repos []*repo) ([]string, error) {
	var modules []map[string]string
	for _, r := range repos {
		modules = append(modules, map[string]string{"address": p.address(r), "source": "git::" + r.url()})
	}
	text, err := json.Marshal(modules)
	return []string{"MODPROXY_MODULES_HOST=" + ownHost, "MODPROXY_MODULES=" + string(text)}, err
}

// startProxy starts modproxy with an empty data directory. It logs to modproxy.log in s.dir.
func (s *settings) startProxy(ctx context.Context, repos []*repo) (*proxy, error) {
	p := &proxy{program: s.proxy, host: registryHost}
	p.env = append(environment(s.dir),
		"MODPROXY_LISTEN=127.0.0.1:8080", "MODPROXY_DATA="+filepath.Join(s.dir, "data"),
		"MODPROXY_EGRESS_ALLOW=127.0.0.1", "MODPROXY_EGRESS_CA_FILE="+filepath.Join(s.dir, "ca.pem"))
	if s.form == formTags {
		p.host, p.isOwn = ownHost, true
		more, err := p.mapping(repos)
		if err != nil {
			return nil, err
		}
		p.env = append(p.env, more...)
	}
	cmd := exec.Command(s.proxy, "serve")
	cmd.Env = p.env
	var err error
	if p.server, err = rig.Start(cmd, filepath.Join(s.dir, "modproxy.log")); err != nil {
		return nil, err
	}
	if p.url, err = p.server.URL(ctx); err != nil {
		return nil, errors.Join(err, p.server.Stop())
	}
	return p, nil
}

// refusal is the answer of modproxy for a version that it does not serve.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// install requests one version as a client does, and reads its package. subdirectory is the directory of the module in
// the package.
func (p *proxy) install(ctx context.Context, r *repo, version string) (files map[string]file, subdirectory string, err error) {
	base := p.url + "/" + p.host + "/v1/modules/" + p.address(r)
	if _, _, err := ask(ctx, base+"/versions"); err != nil {
		return nil, "", fmt.Errorf("versions: %w", err)
	}
	download := base + "/" + version + "/download"
	header, _, err := ask(ctx, download)
	if err != nil {
		return nil, "", err
	}
	from, err := url.Parse(download)
	if err != nil {
		return nil, "", err
	}
	to, err := modproxy.ParseLocation(header.Get("X-Terraform-Get"), from)
	if err != nil {
		return nil, "", err
	}
	_, body, err := ask(ctx, to.URL)
	if errors.As(err, new(refusal)) {
		if _, _, why := ask(ctx, download); why != nil {
			err = why // the download has the reason
		}
	}
	if err != nil {
		return nil, "", err
	}
	files, err = readPackage(body)
	return files, to.Subdir, err
}

// ask repeats a request until the answer is not 503.
func ask(ctx context.Context, url string) (http.Header, []byte, error) {
	for {
		a := rig.Get(ctx, url)
		switch {
		case a.Err != nil:
			return nil, nil, a.Err
		case a.Status == http.StatusServiceUnavailable:
			select {
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			case <-time.After(time.Second):
			}
		case a.Status >= 300:
			return nil, nil, refusal{strings.TrimSpace(fmt.Sprintf("%d %s %s", a.Status, http.StatusText(a.Status), a.Said()))}
		default:
			return a.Header, a.Body, nil
		}
	}
}

func readPackage(body []byte) (map[string]file, error) {
	zr, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	files := map[string]file{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%s is not a regular file", h.Name)
		}
		hash := sha256.New()
		if _, err := io.Copy(hash, tr); err != nil {
			return nil, err
		}
		files[h.Name] = file{[sha256.Size]byte(hash.Sum(nil)), h.Mode&0o100 != 0}
	}
}

// notes returns the number of cached versions of a module with notes, and the notes of one version.
func (p *proxy) notes(ctx context.Context, r *repo) (n int, example string, err error) {
	out, err := command(ctx, "", p.env, p.program, "ls", "--json") // with a module, it fails if all of it was done before
	var list struct {
		Items []struct {
			Module, Version string
			Notes           []string
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &list)
	}
	for _, line := range list.Items {
		if line.Module == p.host+"/"+p.address(r) && len(line.Notes) > 0 {
			n++
			example = line.Version + ": " + strings.Join(line.Notes, "; ")
		}
	}
	return n, example, err
}
