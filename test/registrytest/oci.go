package registrytest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// OCIProgram returns the path of the OCI registry that tools/build-registry.sh builds.
func OCIProgram() string {
	cache, _ := os.UserCacheDir() // without a cache directory the program does not exist
	return filepath.Join(cache, "modproxy-tools", "registry")
}

// An OCIRegistry is a process of [OCIProgram] on this machine. It speaks HTTP without TLS.
type OCIRegistry struct {
	URL *url.URL

	program *exec.Cmd
}

// StartOCI starts a registry that stores its content in dir/data. more is added to its configuration, in YAML: lines at the top, such as
// "auth:". Several processes may use one dir after each other.
func StartOCI(dir string, more string) (*OCIRegistry, error) {
	config := filepath.Join(dir, "registry.yaml")
	text := fmt.Sprintf("version: 0.1\nlog: {formatter: text}\nhttp: {addr: \"127.0.0.1:0\", relativeurls: true, secret: test}\n"+
		"storage:\n  filesystem: {rootdirectory: %q}\n%s", filepath.Join(dir, "data"), more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r := &OCIRegistry{program: exec.Command(OCIProgram(), "serve", config)}
	r.program.Env = []string{"OTEL_TRACES_EXPORTER=none"}
	out, err := r.program.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := r.program.Start(); err != nil {
		return nil, err
	}
	lines, seen := bufio.NewScanner(out), ""
	for r.URL == nil && lines.Scan() {
		seen += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			r.URL = &url.URL{Scheme: "http", Host: m[1]}
		}
	}
	if r.URL == nil {
		return nil, errors.Join(fmt.Errorf("OCI registry: %s", seen), r.Close())
	}
	go io.Copy(io.Discard, out)
	return r, nil
}

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)

// Close ends the process.
func (r *OCIRegistry) Close() error {
	err := r.program.Process.Kill()
	if exit := (*exec.ExitError)(nil); !errors.As(r.program.Wait(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return errors.Join(err, errors.New("the OCI registry ended by itself"))
	}
	return err
}

// ociPath matches the paths of the API (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#endpoints).
var ociPath = regexp.MustCompile(`^/v2/(?:.+/(?:manifests|blobs)/[^/]+|.+/tags/list)?$`)

// startOCI starts a registry with the modules of the fixture. The content of earlier fixtures stays there, without tags.
func (s *site) startOCI(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tags, err := filepath.Glob(filepath.Join(dir, "data/docker/registry/v2/repositories/*/*/_manifests/tags"))
	for _, of := range tags {
		err = errors.Join(err, os.RemoveAll(of))
	}
	if err != nil {
		return err
	}
	if s.oci, err = StartOCI(dir, ""); err != nil {
		return err
	}
	for repository, tags := range s.content.oci {
		for tag, files := range tags {
			if err := s.pushOCI(repository, tag, files); err != nil {
				return errors.Join(err, s.close())
			}
		}
	}
	if s.content.htpasswd == nil {
		return nil
	}
	file := filepath.Join(dir, "htpasswd")
	if err := errors.Join(s.close(), os.WriteFile(file, s.content.htpasswd, 0o600)); err != nil {
		return err
	}
	s.oci, err = StartOCI(dir, fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n", file))
	return err
}

func (s *site) pushOCI(repository, tag string, files []file) (err error) {
	files = slices.Clone(files)
	for i := range files {
		if files[i].data, err = s.fill(files[i].data); err != nil {
			return err
		}
	}
	var archive bytes.Buffer
	if err := writeZip(&archive, files, ""); err != nil {
		return err
	}
	_, err = s.oci.Push(repository, tag, archive.Bytes())
	return err
}

func (s *site) serveOCI(w http.ResponseWriter, r *http.Request) {
	if s.oci == nil {
		http.NotFound(w, r)
		return
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(s.oci.URL); p.SetXForwarded() }, ErrorLog: silent}
	proxy.ServeHTTP(w, r)
}

// close ends the processes of s, which may be nil.
func (s *site) close() error {
	if s == nil || s.oci == nil {
		return nil
	}
	return s.oci.Close()
}

// Blob uploads a blob and returns its descriptor, of the given media type.
func (r *OCIRegistry) Blob(repository, mediaType string, data []byte) (map[string]any, error) {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	began, err := r.send(http.MethodPost, "/v2/"+repository+"/blobs/uploads/", "", nil, http.StatusAccepted)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(began.Get("Location"))
	if err != nil {
		return nil, err
	}
	query := at.Query()
	query.Set("digest", digest)
	_, err = r.send(http.MethodPut, at.Path+"?"+query.Encode(), "application/octet-stream", data, http.StatusCreated)
	return map[string]any{"mediaType": mediaType, "digest": digest, "size": len(data)}, err
}

// ManifestType is the media type of image manifests.
const ManifestType = "application/vnd.oci.image.manifest.v1+json"

// Manifest uploads a manifest under a tag and returns its digest.
func (r *OCIRegistry) Manifest(repository, tag, mediaType string, manifest any) (digest string, err error) {
	data, err := json.Marshal(manifest)
	if err == nil {
		_, err = r.send(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, data, http.StatusCreated)
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(data)), err
}

// Push uploads a module for OpenTofu, a zip archive, under a tag. It returns the digest of the manifest.
func (r *OCIRegistry) Push(repository, tag string, archive []byte) (digest string, err error) {
	layer, err := r.Blob(repository, "archive/zip", archive)
	if err != nil {
		return "", err
	}
	return r.PushLayers(repository, tag, "application/vnd.opentofu.modulepkg", layer)
}

// PushLayers uploads a manifest with blobs of its repository.
func (r *OCIRegistry) PushLayers(repository, tag, artifactType string, layers ...map[string]any) (digest string, err error) {
	config, err := r.Blob(repository, "application/vnd.oci.empty.v1+json", []byte("{}"))
	if err != nil {
		return "", err
	}
	return r.Manifest(repository, tag, ManifestType, map[string]any{
		"schemaVersion": 2, "mediaType": ManifestType, "artifactType": artifactType, "config": config, "layers": layers,
	})
}

func (r *OCIRegistry) send(method, path, contentType string, body []byte, want int) (http.Header, error) {
	req, err := http.NewRequest(method, r.URL.String()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != want {
		err = fmt.Errorf("OCI registry: %s %s: %s: %s", method, path, res.Status, strings.TrimSpace(string(text)))
	}
	return res.Header, err
}
