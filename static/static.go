// Package static writes modules and providers as files that a web server serves to clients.
//
//	site, err := static.Open(dir, false)
//	err = site.Add(v, subdir, digest, content)
//	summary, err := site.Finish("registry.terraform.io")
//
// Clients then install from the web server, without modproxy.
//
// Invariants: every file is replaced as a whole, and every added package has its digest. Packages are in place before a list
// of versions names them: Add writes packages, and only Finish writes the lists, the discovery document and nginx.conf. If a process
// ends before Finish, clients see the previous lists of modules; the next Open and Finish continue. The document of a provider's version
// is written by AddProvider. A site may get more versions later, and none is removed. Errors of the file system are those of package os.
//
// The directory of a [Site] contains, for every host:
//
//	.well-known/terraform.json                            the discovery document, of one of the hosts
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/versions        the list of versions
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/download
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/package.tar.gz
//	nginx.conf                                            the configuration of nginx
//
// OpenTofu takes the location of a package from the body of a download, and Terraform only from the header
// X-Terraform-Get (internal/registry/client.go of both). Any web server can serve the files to OpenTofu; one that adds
// the header serves both. The header is the same text for every version whose module is at the root of its package. nginx.conf has
// this text, and lists the other versions with their own.
//
// The packages of providers are a mirror for a file system and, for clients that reach a web server over https, a
// network mirror (https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol):
//
//	providers/HOST/NAMESPACE/TYPE/index.json              the list of versions
//	providers/HOST/NAMESPACE/TYPE/VERSION.json            the packages of one version, with their hashes
//	providers/HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//	providers/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/        the files of an unpacked package, for a file system only
package static

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

const (
	packageFile  = "package.tar.gz"
	downloadFile = "download"
	versionsFile = "versions"
)

// Site is a directory with modules and providers. It must not be used by several goroutines or processes at a time.
type Site struct {
	dir      string
	unpacked bool                       // packages of providers are directories
	have     map[modproxy.Digest]string // the file of every stored package

	digests map[string]modproxy.Digest          // of the packages of providers, by path relative to dir
	hashes  map[modproxy.Digest]modproxy.Hashes // of the packages added by this Site
	trees   map[modproxy.Sum]string             // the directory of every unpacked package, relative to dir
}

// Open opens a site, and creates it if it does not exist. It reads every stored package. If unpacked is true, AddProvider stores
// packages of providers as directories, otherwise as files. Packages of modules are always files.
func Open(dir string, unpacked bool) (*Site, error) {
	s := &Site{
		dir: dir, unpacked: unpacked, have: map[modproxy.Digest]string{}, digests: map[string]modproxy.Digest{},
		hashes: map[modproxy.Digest]modproxy.Hashes{}, trees: map[modproxy.Sum]string{},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, at := range s.versions(packageFile) {
		name := filepath.Join(dir, at, packageFile)
		digest, err := digestOf(name)
		if err != nil {
			return nil, err
		}
		s.have[digest] = name
	}
	return s, s.openProviders()
}

// versions returns the directories of the versions that have a file, relative to the site.
func (s *Site) versions(file string) (dirs []string) {
	found, _ := fs.Glob(os.DirFS(s.dir), "*/v1/modules/*/*/*/*/"+file) // the pattern is valid
	for _, name := range found {
		dirs = append(dirs, path.Dir(name))
	}
	return dirs
}

func digestOf(name string) (digest modproxy.Digest, err error) {
	f, err := durable.OpenRegular(name, os.O_RDONLY)
	if err != nil {
		return digest, err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return modproxy.Digest(hash.Sum(nil)), err
}

// Has returns the digests of the stored packages. Callers need not read these packages again.
func (s *Site) Has() []modproxy.Digest { return slices.Collect(maps.Keys(s.have)) }

// Texts that need no escaping in a location, in its header, and in the configuration of nginx.
var (
	plainSubdir = regexp.MustCompile(`^[A-Za-z0-9_.@+~-][A-Za-z0-9_./@+~-]*$`)
	plainHost   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?$`)
)

// Add adds a version of a module. subdir is the module's directory in the package, or empty for its root. Add reads the package from
// content. If [Site.Has] lists the digest, content may be nil. The error is [modproxy.ErrInvalid] if the version cannot be served from
// files, or if content does not have the digest.
func (s *Site) Add(v modproxy.Ref, subdir string, digest modproxy.Digest, content io.Reader) error {
	version := v.FullVersion()
	canonical, err := modproxy.CanonicalVersion(version)
	switch {
	case v.Check() != nil || err != nil || canonical != version || !plainHost.MatchString(v.Host):
		return fmt.Errorf("%w: module %.200q", modproxy.ErrInvalid, v)
	case subdir != "" && (!plainSubdir.MatchString(subdir) || !fs.ValidPath(subdir)):
		return fmt.Errorf("%w: %s: its directory in the package is %.200q, which a web server cannot serve from files",
			modproxy.ErrInvalid, v, subdir)
	}
	dir := filepath.Join(s.dir, v.Host, "v1", "modules", v.Namespace, v.Name, v.System, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.RemoveTemps(dir, packageFile); err != nil { // left by a killed process
		return err
	}
	if err := s.add(filepath.Join(dir, packageFile), digest, content); err != nil {
		return fmt.Errorf("%s: %w", v, err)
	}
	return writeJSON(filepath.Join(dir, downloadFile), map[string]string{"location": location(subdir)})
}

// location returns the location of a package, relative to its download document.
func location(subdir string) string {
	if subdir == "" {
		return "./" + packageFile
	}
	return "./" + packageFile + "//" + subdir
}

// add stores the package with a digest in a file. It copies a package that is stored already.
func (s *Site) add(name string, digest modproxy.Digest, content io.Reader) error {
	from, there := s.have[digest]
	switch {
	case there && from == name:
		return nil
	case !there && content == nil:
		return fmt.Errorf("%w: the package %s is missing from the directory", modproxy.ErrInvalid, digest)
	}
	err := write(name, func(w io.Writer) error {
		if there {
			f, err := durable.OpenRegular(from, os.O_RDONLY)
			if err != nil {
				return err
			}
			defer f.Close()
			content = f
		}
		hash := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, hash), content); err != nil {
			return err
		}
		if got := modproxy.Digest(hash.Sum(nil)); got != digest {
			return fmt.Errorf("%w: the package has the digest %s, want %s", modproxy.ErrInvalid, got, digest)
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.have, func(_ modproxy.Digest, at string) bool { return at == name }) // the previous package in this file
	if !there {
		s.have[digest] = name
	}
	return nil
}

// write replaces a file by one that a web server can read.
func write(name string, f func(io.Writer) error) error {
	return durable.Disk{}.WriteFile(name, func(file *os.File) error {
		return errors.Join(file.Chmod(0o644), f(file))
	})
}

func writeJSON(name string, v any) error {
	return write(name, func(w io.Writer) error { return json.NewEncoder(w).Encode(v) })
}
