package static

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A Summary describes the content of a site.
type Summary struct {
	Versions int // of modules
	Packages int // of providers
	dir      string
	hosts    []string // hosts of the packages of providers, as people write them
	listed   []string // hosts of the packages that a web server can serve
}

// Installation returns the configuration for clients that can read the directory of the site. It is empty without
// providers.
func (s Summary) Installation() string {
	return installation("filesystem_mirror", "path", filepath.ToSlash(filepath.Join(s.dir, mirrorDir)), s.hosts)
}

// NetworkInstallation is like Installation, for clients that reach the site at the URL base.
func (s Summary) NetworkInstallation(base string) string {
	hasPort := func(h string) bool { return strings.Contains(h, ":") } // clients cannot make the URL of a host with a port
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
