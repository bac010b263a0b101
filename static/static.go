// Package static writes modules and providers as files that a web server serves to Terraform and OpenTofu, without modproxy.
//
// In the directory of a [Site], for every host:
//
//	.well-known/terraform.json                            the discovery document, of one of the hosts
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/versions        the versions that are there
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/download
//	HOST/v1/modules/NAMESPACE/NAME/SYSTEM/VERSION/package.tar.gz
//	nginx.conf                                            what nginx has to be told
//
// OpenTofu takes the location of a package from the body of a download, and Terraform from the header X-Terraform-Get
// only (internal/registry/client.go of both): any web server serves the files to OpenTofu, and one that adds the header to
// both. It is the same text for every version, unless a module is not at the root of its package.
//
// The packages of providers are a mirror, both of a file system and, for clients that reach a web server over https, of a
// network (https://developer.hashicorp.com/terraform/internals/provider-network-mirror-protocol):
//
//	providers/HOST/NAMESPACE/TYPE/index.json              the versions that are there
//	providers/HOST/NAMESPACE/TYPE/VERSION.json            the packages of one, with their hashes
//	providers/HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip
//	providers/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/        its files instead, which only the file system has, if they are unpacked
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

// Site is a directory with modules and providers. It is for one goroutine, and one process at a time.
type Site struct {
	dir      string
	unpacked bool                       // packages of providers are directories
	have     map[modproxy.Digest]string // the file of every package that is there

	digests map[string]modproxy.Digest          // of the packages of providers, by path from dir
	hashes  map[modproxy.Digest]modproxy.Hashes // of those that were added
	trees   map[modproxy.Sum]string             // the directory of every package that is unpacked, by path from dir
}

// Open opens a site, which is made if there is none. It reads every package that is there. Packages of providers will be
// directories if unpacked is set, and else files.
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

// versions returns the directories of the versions that have a file, by path from the site.
func (s *Site) versions(file string) (dirs []string) {
	found, _ := fs.Glob(os.DirFS(s.dir), "*/v1/modules/*/*/*/*/"+file) // the pattern is no error
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

// Has returns the digests of the packages that are there, which need not be read again.
func (s *Site) Has() []modproxy.Digest { return slices.Collect(maps.Keys(s.have)) }

// What stands for itself in a location, in its header, and in the configuration of nginx.
var (
	plainSubdir = regexp.MustCompile(`^[A-Za-z0-9_.@+~-][A-Za-z0-9_./@+~-]*$`)
	plainHost   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?$`)
)

// Add adds a version of a module. Its package is read from content, unless it is there already, as [Site.Has] says. The error is
// [modproxy.ErrInvalid] if the version cannot be served from files, or the package is not the one that digest names.
func (s *Site) Add(v modproxy.Ref, subdir string, digest modproxy.Digest, content io.Reader) error {
	version := v.FullVersion()
	canonical, err := modproxy.CanonicalVersion(version)
	switch {
	case v.Check() != nil || err != nil || canonical != version || !plainHost.MatchString(v.Host):
		return fmt.Errorf("%w: module %.200q", modproxy.ErrInvalid, v)
	case subdir != "" && (!plainSubdir.MatchString(subdir) || !fs.ValidPath(subdir)):
		return fmt.Errorf("%w: %s: its directory in the package is %.200q, which files for a web server cannot say",
			modproxy.ErrInvalid, v, subdir)
	}
	dir := filepath.Join(s.dir, v.Host, "v1", "modules", v.Namespace, v.Name, v.System, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.RemoveTemps(dir, packageFile); err != nil { // of a process that was killed
		return err
	}
	if err := s.add(filepath.Join(dir, packageFile), digest, content); err != nil {
		return fmt.Errorf("%s: %w", v, err)
	}
	return writeJSON(filepath.Join(dir, downloadFile), map[string]string{"location": location(subdir)})
}

// location is where a package is for who asks for the download beside it.
func location(subdir string) string {
	if subdir == "" {
		return "./" + packageFile
	}
	return "./" + packageFile + "//" + subdir
}

// add has the package that digest names in a file.
func (s *Site) add(name string, digest modproxy.Digest, content io.Reader) error {
	from, there := s.have[digest]
	switch {
	case there && from == name:
		return nil
	case !there && content == nil:
		return fmt.Errorf("%w: the package %s was there, and is not any more", modproxy.ErrInvalid, digest)
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
			return fmt.Errorf("%w: the package that came is %s, not %s", modproxy.ErrInvalid, got, digest)
		}
		return nil
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(s.have, func(_ modproxy.Digest, at string) bool { return at == name }) // what it was before
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
