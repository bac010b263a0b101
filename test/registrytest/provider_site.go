package registrytest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

const (
	providersPath = "/v1/providers/"
	releasesPath  = "/releases/"
)

// released returns the version in a path below [providersPath] or [releasesPath], in any spelling of the listed one,
// and the rest of the path.
func (s *site) released(p string) (r *release, rest string) {
	below, ok := strings.CutPrefix(p, providersPath)
	if !ok {
		below, _ = strings.CutPrefix(p, releasesPath)
	}
	parts := strings.SplitN(below, "/", 4)
	if len(parts) < 4 {
		return nil, ""
	}
	provider := s.content.providers[path.Join(parts[:2]...)]
	if provider == nil {
		return nil, ""
	}
	if r := provider.releases[parts[2]]; r != nil {
		return r, parts[3]
	}
	asked, err := modproxy.CanonicalVersion(parts[2])
	for spelling, r := range provider.releases {
		if listed, _ := modproxy.CanonicalVersion(spelling); err == nil && listed == asked {
			return r, parts[3]
		}
	}
	return nil, ""
}

// provider answers the providers.v1 protocol.
func (s *site) provider(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	address, isVersions := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, providersPath), "/versions")
	p := s.content.providers[address]
	release, rest := s.released(r.URL.Path)
	platform, isDownload := strings.CutPrefix(rest, "download/")
	platform = strings.Replace(platform, "/", "_", 1)
	switch {
	case isVersions && p != nil && p.document != nil:
		s.write(w, p.document)
	case isVersions && p != nil:
		json.NewEncoder(w).Encode(p.versions())
	case isDownload && slices.Contains(release.platforms, platform):
		json.NewEncoder(w).Encode(release.download(platform))
	default:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"errors":["Not Found"]}`)
	}
}

// target returns a platform as an object for JSON.
func target(platform string) map[string]any {
	system, arch, _ := strings.Cut(platform, "_")
	return map[string]any{"os": system, "arch": arch}
}

func (p *provider) versions() map[string]any {
	list := []any{}
	for _, version := range slices.SortedFunc(maps.Keys(p.releases), inOrder) {
		r := p.releases[version]
		if !r.listed {
			continue
		}
		var targets []any
		for _, platform := range r.platforms {
			targets = append(targets, target(platform))
		}
		list = append(list, map[string]any{"version": version, "protocols": r.protocols, "platforms": targets})
	}
	return map[string]any{"versions": list, "warnings": p.warnings}
}

// download returns the document about a platform. One of its URLs is relative and two have no host, which is valid.
func (r *release) download(platform string) map[string]any {
	name := r.zipName(platform)
	if r.names == "swapped" {
		name = r.zipName("darwin_arm64")
	}
	below := releasesPath + r.address + "/" + r.version + "/"
	document := target(platform)
	maps.Copy(document, map[string]any{
		"protocols":             r.protocols,
		"filename":              name,
		"download_url":          "../../../../../../.." + below + name,
		"shasums_url":           below + r.listName(),
		"shasums_signature_url": below + r.signatureName,
		"shasum":                r.sums[name],
		"signing_keys":          map[string]any{"gpg_public_keys": r.listedKeys},
	})
	return document
}

// releaseFile sends a file of a release.
func (s *site) releaseFile(w http.ResponseWriter, r *http.Request) {
	release, name := s.released(r.URL.Path)
	if release == nil {
		http.NotFound(w, r)
		return
	}
	b, ok := release.blobs[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	b.serve(w, r)
}
