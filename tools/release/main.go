// Command release writes the files of a release into a directory. It publishes nothing.
//
//	go run -C tools/release . -version v0.1.0 -commit HEAD -out "$PWD/dist" -key ~/.ssh/release
//	go run -C tools/release . -version v0.1.0 -packages -out DIR    writes only the .deb and the .rpm for this machine
//
// Invariants: two runs for the same commit, with the same version of Go and the same Debian packages, write the same bytes. Every time in a
// file is that of the commit, and no file has a path of this machine.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("release: ")
	var r release
	flag.StringVar(&r.version, "version", "", "the `version`, such as v0.1.0 or v0.1.0-rc.1")
	flag.StringVar(&r.out, "out", "", "the `directory` to write; it must be empty or missing")
	key := flag.String("key", "", "the `file` of an SSH key that signs SHA256SUMS; without it, the release is not signed")
	commit := flag.String("commit", "", "the `commit` to build; without it, the checkout with its uncommitted changes")
	packages := flag.Bool("packages", false, "write only the .deb and the .rpm for this machine")
	flag.Parse()
	if err := r.run(*commit, *key, *packages); err != nil {
		log.Fatal(err)
	}
}

// A release is one version of the program, built from one source.
type release struct {
	version string // such as v0.1.0
	out     string // the directory of the files
	temp    string // a directory that run removes at the end
	source
}

// platforms are the platforms of the released programs. No test runs the programs for macOS; writeProgram says so in their names.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

func (r *release) run(commit, key string, onlyPackages bool) (err error) {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version {
		return fmt.Errorf("-version %q is not a version such as v0.1.0", r.version)
	}
	if runtime.GOOS != "linux" {
		return errors.New("a release can be built on Linux only: the packages and the image need programs for Linux")
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return err
	}
	if entries, err := os.ReadDir(r.out); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("-out %s is not an empty directory: remove it, or name another directory", r.out), err)
	}
	if r.temp, err = os.MkdirTemp("", "release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.temp)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.source, err = openSource(commit, filepath.Join(r.temp, "source")); err != nil {
		return err
	}
	log.Printf("modproxy %s from commit %s of %s", r.version, r.commit, r.time.Format("2006-01-02 15:04:05 MST"))
	if onlyPackages {
		return r.writePackages(platform{"linux", runtime.GOARCH})
	}
	return r.writeAll(key)
}

// writeAll writes all files of a release: programs, packages, an image, bills of materials, checksums and their signature.
func (r *release) writeAll(key string) error {
	for _, p := range platforms {
		if err := r.writeProgram(p); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		if err := r.writePackages(p); err != nil {
			return err
		}
	}
	native := platform{"linux", runtime.GOARCH}
	list, err := r.writeImage(native)
	if err != nil {
		return err
	}
	if err := errors.Join(r.writeBOM(), r.writeImageBOM(native, list), r.writeSums()); err != nil {
		return err
	}
	return r.sign(key)
}

// shortName returns the beginning of the names of files, such as modproxy_0.1.0.
func (r *release) shortName() string { return "modproxy_" + strings.TrimPrefix(r.version, "v") }

// name returns the beginning of the names of files for a platform.
func (r *release) name(p platform) string { return r.shortName() + "_" + p.os + "_" + p.arch }
