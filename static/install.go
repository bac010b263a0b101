package static

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Summary is what a site holds.
type Summary struct {
	Versions int // of modules
	Packages int // of providers
	dir      string
	hosts    []string // of the packages of providers, as people write them
	listed   []string // those of the packages that a web server has
}

// Installation returns what clients are told that have the directory of the site. It is empty if no providers are there.
func (s Summary) Installation() string {
	return installation("filesystem_mirror", "path", filepath.ToSlash(filepath.Join(s.dir, mirrorDir)), s.hosts)
}

// NetworkInstallation is Installation for clients that reach the site at the URL base.
func (s Summary) NetworkInstallation(base string) string {
	hasPort := func(h string) bool { return strings.Contains(h, ":") } // whose URL clients cannot make
	hosts := slices.DeleteFunc(slices.Clone(s.listed), hasPort)
	return installation("network_mirror", "url ", base+"/"+mirrorDir+"/", hosts)
}

func installation(method, key, where string, hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	var patterns []string
	for _, h := range hosts {
		patterns = append(patterns, fmt.Sprintf("%q", h+"/*/*"))
	}
	list := strings.Join(patterns, ", ")
	return fmt.Sprintf(`provider_installation {
  %s {
    %s    = "%s"
    include = [%s]
  }
  direct {
    exclude = [%s]
  }
}
`, method, key, where, list, list)
}
