package static

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// Finish writes what is about all versions that are there: the lists of versions, the discovery document, and the
// configuration of nginx. Clients that ask by the name of the web server, without a host, get the modules of host. It
// returns how many versions there are.
func (s *Site) Finish(host string) (versions int, err error) {
	found, err := filepath.Glob(filepath.Join(quoteGlob(s.dir), "*/v1/modules/*/*/*/*", downloadFile))
	if err != nil {
		return 0, err
	}
	lists, subdirs := map[string][]modproxy.Version{}, map[string]string{}
	var hosts []string
	for _, name := range found {
		dir := filepath.Dir(name)
		version, err := modproxy.ParseVersion(filepath.Base(dir))
		if err != nil {
			continue // it is none of ours
		}
		if _, err := os.Stat(filepath.Join(dir, packageFile)); err != nil {
			return 0, err
		}
		var download struct{ Location string }
		text, err := durable.ReadRegular(name, 64<<10)
		if err == nil {
			err = json.Unmarshal(text, &download)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		path, err := filepath.Rel(s.dir, dir)
		if err != nil {
			return 0, err
		}
		path = "/" + filepath.ToSlash(path)
		if _, subdir, _ := strings.Cut(download.Location, "//"); plainSubdir.MatchString(subdir) {
			subdirs[path] = subdir
		}
		lists[filepath.Dir(dir)] = append(lists[filepath.Dir(dir)], version)
		hosts = append(hosts, strings.SplitN(path, "/", 3)[1])
		versions++
	}
	for dir, list := range lists {
		if err := writeJSON(filepath.Join(dir, versionsFile), document(list)); err != nil {
			return 0, err
		}
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	if !slices.Contains(hosts, host) && len(hosts) > 0 {
		host = hosts[0]
	}
	if err := os.MkdirAll(filepath.Join(s.dir, ".well-known"), 0o755); err != nil {
		return 0, err
	}
	services := map[string]string{"modules.v1": "/" + host + "/v1/modules/"}
	if err := writeJSON(filepath.Join(s.dir, ".well-known", "terraform.json"), services); err != nil {
		return 0, err
	}
	return versions, write(filepath.Join(s.dir, "nginx.conf"), func(w io.Writer) error {
		return nginx(w, s.dir, hosts, subdirs)
	})
}

// document is the versions document of a module.
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
