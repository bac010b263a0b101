package static

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/dirhash"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/hostname"
	"github.com/modproxy/modproxy/internal/durable"
)

const (
	mirrorDir = "providers"
	scratch   = ".unpacking" // in the site, not in mirrorDir, because clients read everything there
)

// provided is a stored package of a provider.
type provided struct {
	v  modproxy.Ref // for its platform
	at string       // path of its file or directory, relative to the site
}

// zips returns the packages that are stored as files.
func (s *Site) zips() []provided {
	return s.provided("*.zip", func(host, namespace, typ, file string) modproxy.Ref {
		rest, _ := strings.CutPrefix(strings.TrimSuffix(file, ".zip"), "terraform-provider-"+typ+"_")
		version, platform, _ := strings.Cut(rest, "_")
		return packageOf(host, namespace, typ, version, platform)
	})
}

// unzipped returns the packages that are stored as directories.
func (s *Site) unzipped() []provided {
	return s.provided("*/*_*", func(host, namespace, typ, dir string) modproxy.Ref {
		return packageOf(host, namespace, typ, path.Dir(dir), path.Base(dir))
	})
}

// provided returns the packages whose names below the directory of a provider match a pattern. It leaves out names that
// this package would not write.
func (s *Site) provided(pattern string, parse func(host, namespace, typ, name string) modproxy.Ref) (all []provided) {
	found, _ := fs.Glob(os.DirFS(s.dir), mirrorDir+"/*/*/*/"+pattern) // the pattern is valid
	for _, at := range found {
		parts := strings.SplitN(at, "/", 5)
		v := parse(parts[1], parts[2], parts[3], parts[4])
		if zip, dir := places(v); v.Version != "" && (at == zip || at == dir) {
			all = append(all, provided{v, at})
		}
	}
	return all
}

// packageOf returns the zero version if the names are not those of a package.
func packageOf(host, namespace, typ, version, platform string) (v modproxy.Ref) {
	host, err := hostname.Parse(host)
	p, errPlatform := modproxy.ParsePlatform(platform)
	of := modproxy.Address{Host: host, Namespace: namespace, Name: typ}.At(version)
	if err != nil || errPlatform != nil || checkProvided(of.ForPlatform(p)) != nil {
		return v
	}
	return of.ForPlatform(p)
}

// checkProvided returns a [modproxy.ErrInvalid] if v is not the package of a provider, or cannot be a file name.
func checkProvided(v modproxy.Ref) error {
	canonical, err := modproxy.CanonicalVersion(v.Version)
	bad := err != nil || canonical != v.Version || strings.Contains(v.Version, "_") // an underscore ends the version in a file name
	if bad || !v.IsArchive() || v.CheckProvider() != nil || !plainHost.MatchString(v.Host) {
		return fmt.Errorf("%w: package of a provider %.200q", modproxy.ErrInvalid, v)
	}
	return nil
}

// providerDir returns the directory of a provider. In filesystem mirrors, clients expect hosts as people write them
// (SearchLocalDirectory in internal/getproviders of both clients).
func providerDir(m modproxy.Address) string {
	return path.Join(mirrorDir, hostname.Display(m.Host), m.Namespace, m.Name)
}

// places returns the paths of a package as a file and as a directory.
func places(v modproxy.Ref) (zip, dir string) {
	p, _ := v.Platform()
	at := providerDir(v.Address)
	zip = fmt.Sprintf("terraform-provider-%s_%s_%s.zip", v.Name, v.Version, p)
	return path.Join(at, zip), path.Join(at, v.Version, p.String())
}

// openProviders reads every stored package of a provider.
func (s *Site) openProviders() error {
	if s.unpacked {
		for _, p := range s.unzipped() {
			sum, err := dirhash.HashDir(filepath.Join(s.dir, p.at), "", dirhash.Hash1)
			if err != nil {
				return err
			}
			s.trees[modproxy.Sum(sum)] = p.at
		}
		return os.RemoveAll(filepath.Join(s.dir, scratch)) // left by a killed process
	}
	for _, p := range s.zips() {
		name := filepath.Join(s.dir, p.at)
		digest, err := digestOf(name)
		if err != nil {
			return err
		}
		s.have[digest], s.digests[p.at] = name, digest
	}
	return nil
}

// HasDirectories returns the sums of the packages of providers that are stored as directories, sorted. Callers need not
// read these packages again.
func (s *Site) HasDirectories() []modproxy.Sum { return slices.Sorted(maps.Keys(s.trees)) }

// AddProvider adds the package of a provider for a platform. hashes are the known hashes of the package for the network mirror; they
// may be empty. It reads the package from content, which may be nil if [Site.Has] or [Site.HasDirectories] lists it. The error is
// [modproxy.ErrInvalid] if content does not have the digest, or if the names cannot be file names.
func (s *Site) AddProvider(v modproxy.Ref, digest modproxy.Digest, hashes modproxy.Hashes, content io.Reader) error {
	if err := checkProvided(v); err != nil {
		return err
	}
	zip, tree := places(v)
	if s.unpacked {
		if err := s.unpack(v, tree, digest, hashes, content); err != nil {
			return fmt.Errorf("%s: %w", v.Shown(), err)
		}
		return nil
	}
	dir := filepath.Join(s.dir, path.Dir(zip))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := durable.RemoveTemps(dir, ""); err != nil { // left by a killed process
		return err
	}
	if err := s.add(filepath.Join(s.dir, zip), digest, content); err != nil {
		return fmt.Errorf("%s: %w", v.Shown(), err)
	}
	s.digests[zip], s.hashes[digest] = digest, hashes
	return s.describe(v.Base())
}

// archive is a package in a document of the provider network mirror protocol.
type archive struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

type archives struct {
	Archives map[string]archive `json:"archives"`
}

// describe writes the document of a version: its stored packages, with their known hashes, or those of the previous
// document.
func (s *Site) describe(of modproxy.Ref) error {
	name := filepath.Join(s.dir, providerDir(of.Address), of.Version+".json")
	var before archives
	if text, err := durable.ReadRegular(name, 1<<20); err == nil {
		_ = json.Unmarshal(text, &before) // a damaged document is written again
	}
	now := archives{map[string]archive{}}
	for _, p := range s.zips() {
		platform, _ := p.v.Platform()
		if p.v.Base() != of {
			continue
		}
		digest := s.digests[p.at]
		hashes, was := []string{"zh:" + digest.String()}, before.Archives[platform.String()].Hashes
		for _, sum := range s.hashes[digest].All() {
			hashes = append(hashes, string(sum))
		}
		if len(hashes) == 1 && slices.Contains(was, hashes[0]) {
			hashes = was
		}
		now.Archives[platform.String()] = archive{path.Base(p.at), hashes}
	}
	return writeJSON(name, now)
}

// finishProviders writes the lists of versions of providers, and returns the content of the site.
func (s *Site) finishProviders() (held Summary, err error) {
	zips := s.zips()
	lists := map[modproxy.Address]map[string]struct{}{}
	for _, p := range zips {
		if s.unpacked {
			break // the lists have not changed
		}
		of := p.v.Base()
		if lists[of.Address] == nil {
			lists[of.Address] = map[string]struct{}{}
		}
		lists[of.Address][of.Version] = struct{}{}
	}
	for m, versions := range lists {
		for version := range versions {
			if err := s.describe(m.At(version)); err != nil {
				return held, err
			}
		}
		if err := writeJSON(filepath.Join(s.dir, providerDir(m), "index.json"), map[string]any{"versions": versions}); err != nil {
			return held, err
		}
		shown := hostname.Display(m.Host)
		if m.Host == shown { // clients request the other spelling from a web server
			continue
		}
		if err := os.Symlink(shown, filepath.Join(s.dir, mirrorDir, m.Host)); err != nil && !errors.Is(err, fs.ErrExist) {
			return held, err
		}
	}
	held.dir, err = filepath.Abs(s.dir)
	held.listed = hostsOf(zips)
	zips = append(zips, s.unzipped()...)
	held.hosts, held.Packages = hostsOf(zips), len(zips)
	return held, err
}

// hostsOf returns the hosts of packages as people write them, sorted.
func hostsOf(all []provided) (hosts []string) {
	for _, p := range all {
		hosts = append(hosts, hostname.Display(p.v.Host))
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}
