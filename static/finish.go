package static

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// Finish writes the files about all versions: the lists of versions, the discovery document, and the configuration of
// nginx. Modules of host can also be installed by source addresses with the name of the web server in place of host: the discovery
// document at the root of the site is that of host. The returned Summary describes the whole site.
func (s *Site) Finish(host string) (held Summary, err error) {
	if held, err = s.finishProviders(); err != nil {
		return held, err
	}
	lists, subdirs := map[string][]modproxy.Version{}, map[string]string{}
	var hosts []string
	for _, at := range s.versions(downloadFile) {
		version, err := modproxy.ParseVersion(path.Base(at))
		if err != nil {
			continue // not written by this package
		}
		if _, err := os.Stat(filepath.Join(s.dir, at, packageFile)); err != nil {
			return held, err
		}
		subdir, err := s.subdir(at)
		if err != nil {
			return held, err
		}
		if plainSubdir.MatchString(subdir) {
			subdirs["/"+at] = subdir
		}
		module := path.Dir(at)
		lists[module] = append(lists[module], version)
		if host, _, _ := strings.Cut(at, "/"); !slices.Contains(hosts, host) {
			hosts = append(hosts, host) // sorted, because versions are found in order
		}
		held.Versions++
	}
	for dir, list := range lists {
		if err := writeJSON(filepath.Join(s.dir, dir, versionsFile), document(list)); err != nil {
			return held, err
		}
	}
	if !slices.Contains(hosts, host) && len(hosts) > 0 {
		host = hosts[0]
	}
	if err := os.MkdirAll(filepath.Join(s.dir, ".well-known"), 0o755); err != nil {
		return held, err
	}
	services := map[string]string{"modules.v1": "/" + host + "/v1/modules/"}
	if err := writeJSON(filepath.Join(s.dir, ".well-known", "terraform.json"), services); err != nil {
		return held, err
	}
	return held, write(filepath.Join(s.dir, "nginx.conf"), func(w io.Writer) error {
		return nginx(w, held, hosts, subdirs)
	})
}

// subdir returns the directory of a module in its package.
func (s *Site) subdir(version string) (string, error) {
	name := filepath.Join(s.dir, version, downloadFile)
	var download struct{ Location string }
	text, err := durable.ReadRegular(name, 64<<10)
	if err == nil {
		err = json.Unmarshal(text, &download)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	_, subdir, _ := strings.Cut(download.Location, "//")
	return subdir, nil
}

// document returns the versions document of a module.
func document(list []modproxy.Version) any {
	type entry struct {
		Version string `json:"version"`
	}
	slices.SortFunc(list, modproxy.Version.Compare)
	var entries []entry
	for _, v := range list {
		entries = append(entries, entry{v.String()})
	}
	return map[string]any{"modules": []any{map[string]any{"versions": entries}}}
}
