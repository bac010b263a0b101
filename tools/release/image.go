package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageSources are the sources of the Debian packages in the image. mmdebstrap installs the newest versions, so the bytes of an image depend on
// the day of the build.
var imageSources = []string{
	"deb http://deb.debian.org/debian trixie main",
	"deb http://deb.debian.org/debian-security trixie-security main",
}

// writeImage writes the container image for the platform of this machine: the installation of Debian packages runs programs. It returns the file
// in which packaging/image-root.sh lists the Debian packages.
func (r *release) writeImage(p platform) (list string, err error) {
	root, list := filepath.Join(r.temp, "root.tar"), filepath.Join(r.temp, "debian-packages")
	program, err := r.program(p)
	if err != nil {
		return "", err
	}
	args := []string{
		"--quiet", "--variant=essential", "--include=ca-certificates,git,openssh-client",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		fmt.Sprintf("--customize-hook=%s \"$1\" %s %s", filepath.Join(r.dir, "packaging", "image-root.sh"), program, list),
		"trixie", root,
	}
	cmd := exec.Command("mmdebstrap", append(args, imageSources...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+r.epoch())
	if _, err := output(cmd); err != nil {
		return "", err
	}
	return list, r.writeLayout(p, root)
}

// epoch returns the time of the commit in seconds since 1970.
func (r *release) epoch() string { return strconv.FormatInt(r.time.Unix(), 10) }

// writeLayout writes an image as a tar archive of an OCI layout. root is the tar archive of the image's root file system.
func (r *release) writeLayout(p platform, root string) error {
	image, err := r.image(p, root)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.temp, "image")
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Platform:    &v1.Platform{OS: p.os, Architecture: p.arch},
		Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version},
	}})
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	_, err = output(exec.Command("tar", "--sort=name", "--mtime=@"+r.epoch(), "--owner=0", "--group=0", "--numeric-owner",
		"--mode=u=rwX,go=rX", "-C", dir, "-cf", filepath.Join(r.out, r.name(p)+".oci.tar"), "blobs", "index.json", "oci-layout"))
	return err
}

// image returns an image with one layer, the tar archive root, and the configuration in packaging/image.json.
func (r *release) image(p platform, root string) (v1.Image, error) {
	layer, err := tarball.LayerFromFile(root, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	file := &v1.ConfigFile{OS: p.os, Architecture: p.arch, Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"}}
	text, err := os.ReadFile(filepath.Join(r.dir, "packaging", "image.json"))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &file.Config); err != nil {
		return nil, fmt.Errorf("packaging/image.json: %w", err)
	}
	file.Config.Labels = map[string]string{
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.commit,
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	configured, err := mutate.ConfigFile(base, file)
	if err != nil {
		return nil, err
	}
	return mutate.Append(configured, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "tools/release", Comment: "Debian root and modproxy"},
	})
}
