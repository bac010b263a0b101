package main

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/test/registrytest"
)

// serveInternet serves the registries and the forge, both on port 443 of this machine. It writes the certificate of
// their authority to ca.pem in the scratch directory.
func (s *settings) serveInternet(repos []*repo) error {
	dir := s.dir
	cert, key, err := registrytest.CA().Issue(append(registries, forgeHost)...)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), registrytest.CA().PEM, 0o644); err != nil {
		return err
	}
	forge := filepath.Join(dir, "forge")
	byAddress := map[string]*repo{}
	for _, r := range repos {
		byAddress[r.address] = r
		if err := os.MkdirAll(filepath.Join(forge, r.owner), 0o755); err != nil {
			return err
		}
		for _, suffix := range []string{"", ".git"} {
			if err := os.Symlink(r.dir, filepath.Join(forge, r.owner, r.name+suffix)); err != nil {
				return err
			}
		}
	}
	// A forge serves every commit, and its repositories may belong to any user.
	gitServer, err := registrytest.GitServer(forge, "GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
		"GIT_CONFIG_KEY_1=uploadpack.allowAnySHA1InWant", "GIT_CONFIG_VALUE_1=true")
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:443")
	if err != nil {
		return err
	}
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}},
		ErrorLog:  log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch owner, rest, ok := strings.Cut(r.URL.Path, "/archive/"); {
			case slices.Contains(registries, r.Host):
				s.serveRegistry(w, r, byAddress)
			case ok:
				serveArchive(w, r, filepath.Join(forge, owner), rest, archives[s.form])
			default:
				gitServer.ServeHTTP(w, r)
			}
		}),
	}
	go server.ServeTLS(l, "", "")
	return nil
}

// serveRegistry answers requests of the module registry protocol.
func (s *settings) serveRegistry(w http.ResponseWriter, r *http.Request, byAddress map[string]*repo) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/.well-known/terraform.json" {
		io.WriteString(w, `{"modules.v1":"/v1/modules/"}`)
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/v1/modules/"), "/")
	if len(parts) < 4 || byAddress[strings.Join(parts[:3], "/")] == nil {
		http.Error(w, `{"errors":["Not Found"]}`, http.StatusNotFound)
		return
	}
	module := byAddress[strings.Join(parts[:3], "/")]
	switch {
	case len(parts) == 4 && parts[3] == "versions":
		type listed struct {
			Version string `json:"version"`
		}
		var list []listed
		for _, v := range module.versions {
			list = append(list, listed{v})
		}
		json.NewEncoder(w).Encode(map[string]any{"modules": []any{map[string]any{"versions": list}}})
	case len(parts) == 5 && parts[4] == "download" && module.refs[parts[3]] != "":
		location, _, err := s.location(r.Context(), module, parts[3])
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Terraform-Get", location)
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, `{"errors":["Not Found"]}`, http.StatusNotFound)
	}
}

// archiveRoot returns the top directory in the archive of a tag.
func archiveRoot(tag string) string { return "module-" + tag }

// serveArchive serves the archive that a forge makes of a tag, in one directory.
func serveArchive(w http.ResponseWriter, r *http.Request, repository, name, format string) {
	tag := strings.TrimSuffix(name, "."+format)
	archive, err := git(r.Context(), repository, "archive", "--format="+format, "--prefix="+archiveRoot(tag)+"/", "refs/tags/"+tag)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	io.WriteString(w, archive)
}
