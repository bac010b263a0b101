package registrytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cgi"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"maps"

	"github.com/modproxy/modproxy"
)

// site is a fixture that is ready to be served: every placeholder is filled, every archive packed, every repository
// built. It is immutable.
type site struct {
	host, url string
	content   *content
	repos     *repos
	archives  map[string][]byte
	git       http.Handler
	oci       *OCIRegistry // nil without modules for it
}

func newSite(files []file, host, url, gitDir, ociDir string) (*site, error) {
	c, err := readContent(files)
	if err != nil {
		return nil, err
	}
	s := &site{host: host, url: url, content: c, archives: map[string][]byte{}}
	s.repos = &repos{dir: gitDir, content: c.repos, fill: s.fill, commits: map[string]map[string]string{}}
	for repo, revisions := range c.repos {
		for revision := range revisions {
			if _, err := s.repos.commit(repo + "@" + revision); err != nil {
				return nil, err
			}
		}
	}
	for name := range c.archives {
		if _, err := s.archive(name); err != nil {
			return nil, err
		}
	}
	for address, p := range c.providers {
		for version, r := range p.releases {
			if err := r.make(address, version, s.fill); err != nil {
				return nil, fmt.Errorf("fixture: provider %s %s: %w", address, version, err)
			}
		}
	}
	if len(c.repos) > 0 {
		if s.git, err = GitServer(gitDir); err != nil {
			return nil, err
		}
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if len(c.oci) > 0 {
		if err := s.startOCI(ociDir); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// check fills every location once, so that a mistake in a fixture fails at the start.
func (s *site) check() error {
	for address, versions := range s.content.modules {
		for version, e := range versions {
			if _, err := s.fill([]byte(e.location)); err != nil {
				return fmt.Errorf("%s/%s: %w", address, version, err)
			}
		}
	}
	for address, p := range s.content.providers {
		if _, err := s.fill(p.document); err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	for name, data := range s.content.other {
		if _, err := s.fill(data); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (s *site) fill(data []byte) ([]byte, error) {
	return fill(data, func(kind, name string) (string, error) {
		switch kind {
		case "url":
			return s.url, nil
		case "commit":
			return s.repos.commit(name)
		case "sha256":
			body, err := s.archive(name)
			return fmt.Sprintf("%x", sha256.Sum256(body)), err
		}
		return s.host, nil
	})
}

// archive packs an archive of the fixture when it is first needed.
func (s *site) archive(name string) ([]byte, error) {
	if body, ok := s.archives[name]; ok {
		return body, nil
	}
	files, ok := s.content.archives[name]
	if !ok {
		return nil, fmt.Errorf("fixture: no archive %q", name)
	}
	files = slices.Clone(files)
	for i := range files {
		var err error
		if files[i].data, err = s.fill(files[i].data); err != nil {
			return nil, err
		}
	}
	body, err := buildArchive(name, files)
	if err != nil {
		return nil, fmt.Errorf("fixture: archive %s: %w", name, err)
	}
	s.archives[name] = body
	return body, nil
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch kindOf(r) {
	case Discovery:
		s.discovery(w, r)
	case Versions:
		s.versions(w, r)
	case Download:
		s.download(w, r)
	case ProviderVersions, ProviderDownload:
		s.provider(w, r)
	case Sums, Signature, Zip:
		s.releaseFile(w, r)
	case Archive:
		s.body(w, r)
	case Dates, Catalog:
		s.document(w, r)
	case Get:
		s.get(w, r)
	case Git:
		s.serveGit(w, r)
	case OCI:
		s.serveOCI(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (s *site) discovery(w http.ResponseWriter, r *http.Request) {
	body, ok := s.content.other[".well-known/terraform.json"]
	if !ok {
		body = []byte(`{"modules.v1":"/v1/modules/"}`)
		if len(s.content.providers) > 0 {
			body = []byte(`{"modules.v1":"/v1/modules/","providers.v1":"/v1/providers/"}`)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	s.write(w, body)
}

// write sends body with its placeholders filled. check has filled it before.
func (s *site) write(w io.Writer, body []byte) {
	filled, err := s.fill(body)
	if err != nil {
		panic(err)
	}
	w.Write(filled)
}

func (s *site) versions(w http.ResponseWriter, r *http.Request) {
	address := path.Dir(strings.TrimPrefix(r.URL.Path, "/v1/modules/"))
	w.Header().Set("Content-Type", "application/json")
	if document, ok := s.content.lists[address]; ok {
		s.write(w, document)
		return
	}
	versions, ok := s.content.modules[address]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errors":["Not Found"]}`)
		return
	}
	type listed struct {
		Version string `json:"version"`
	}
	var list []listed
	for _, version := range slices.SortedFunc(maps.Keys(versions), inOrder) {
		list = append(list, listed{version})
	}
	json.NewEncoder(w).Encode(map[string]any{
		"modules": []any{map[string]any{"source": address, "versions": list}},
	})
}

// download answers for a version in any spelling of the listed one.
func (s *site) download(w http.ResponseWriter, r *http.Request) {
	rest, version := path.Split(path.Dir(strings.TrimPrefix(r.URL.Path, "/v1/modules/")))
	asked, err := modproxy.CanonicalVersion(version)
	for spelling, e := range s.content.modules[path.Clean(rest)] {
		if listed, _ := modproxy.CanonicalVersion(spelling); err == nil && listed == asked {
			location, err := s.fill([]byte(e.location))
			if err != nil {
				panic(err) // check has filled it before
			}
			e.write(w, string(location))
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusNotFound)
	io.WriteString(w, `{"errors":["Not Found"]}`)
}

// write sends a location in one of the forms that registries use.
func (e entry) write(w http.ResponseWriter, location string) {
	switch e.answer {
	case "200 json":
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{"location": location})
	case "200 header":
		w.Header().Set("X-Terraform-Get", location)
		io.WriteString(w, "{}")
	default:
		w.Header().Set("X-Terraform-Get", location)
		w.WriteHeader(http.StatusNoContent)
	}
}

// body serves an archive, also under its name without extension, or a file.
func (s *site) body(w http.ResponseWriter, r *http.Request) {
	if data, ok := s.content.other[strings.TrimPrefix(r.URL.Path, "/")]; ok {
		s.write(w, data)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/archives/")
	for _, extension := range append([]string{""}, formats...) {
		if body, ok := s.archives[strings.TrimSuffix(name+"."+extension, ".")]; ok {
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, name, modified, bytes.NewReader(body))
			return
		}
	}
	http.NotFound(w, r)
}

// document serves a file by its path with the query, or by the path alone, with or without .json behind it.
func (s *site) document(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	for kind, query := range map[string]string{"v2/modules/": "include=module-versions", "v2/providers/": "include=provider-versions"} {
		if strings.HasPrefix(name, kind) && r.URL.RawQuery != query {
			http.NotFound(w, r)
			return
		}
	}
	for _, name := range []string{name + "?" + r.URL.RawQuery, name} {
		for _, extension := range []string{"", ".json"} {
			if data, ok := s.content.other[name+extension]; ok {
				w.Header().Set("Content-Type", "application/json")
				s.write(w, data)
				return
			}
		}
	}
	http.NotFound(w, r)
}

// get answers a request with ?terraform-get=1, in a header or in a meta element.
func (s *site) get(w http.ResponseWriter, r *http.Request) {
	data, ok := s.content.other[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok || r.URL.Query().Get("terraform-get") != "1" {
		http.NotFound(w, r)
		return
	}
	location, err := s.fill(bytes.TrimSpace(data))
	if err != nil {
		panic(err) // check has filled it before
	}
	if strings.HasPrefix(r.URL.Path, "/get/") {
		w.Header().Set("X-Terraform-Get", string(location))
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><html><head><meta charset=utf-8>\n<meta name=\"terraform-get\" content=\"%s\">\n</head><body></body></html>\n", html.EscapeString(string(location)))
}

func (s *site) serveGit(w http.ResponseWriter, r *http.Request) {
	if s.git == nil {
		http.NotFound(w, r)
		return
	}
	s.git.ServeHTTP(w, r)
}

// GitServer returns git's own server for the bare repositories below dir. env is added to its environment, which
// ignores the configuration of the user.
func GitServer(dir string, env ...string) (http.Handler, error) {
	path, err := git(nil, "--exec-path")
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:    append(append(GitEnvironment(), "GIT_PROJECT_ROOT="+dir, "GIT_HTTP_EXPORT_ALL=1"), env...),
		Logger: silent,
		Stderr: io.Discard,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// CGI needs the length of a request.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		backend.ServeHTTP(w, r)
	}), nil
}
