package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/modproxy/modproxy/test/registrytest"
)

// The groups of modules from git, and of providers. Names of modules and providers begin with their group.
const (
	fromGit      = "git"      // modules whose locations name tags of one repository
	fromProvider = "provider" // providers
)

const (
	providersPath = "/v1/providers/"
	gitPath       = "/git/"
	platform      = "linux_amd64"
)

// serveGit makes a repository with a tag for each of n modules of the group fromGit, and serves it.
func (u *registry) serveGit(ctx context.Context, dir string, n, size int) error {
	repository := dir + "/modules.git"
	var stream bytes.Buffer
	for i := range n {
		data := make([]byte, size)
		rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, fromGit, i))).Read(data) // never fails
		text := fmt.Sprintf("# %d\n", i)
		fmt.Fprintf(&stream, "commit refs/tags/%s%d\ncommitter load <load@example.com> %d +0000\ndata 0\n", fromGit, i, 1700000000+i)
		fmt.Fprintf(&stream, "M 100644 inline main.tf\ndata %d\n%s\nM 100644 inline data.bin\ndata %d\n%s\n", len(text), text, len(data), data)
	}
	for _, args := range [][]string{{"init", "--quiet", "--bare", "--template=", repository}, {"-C", repository, "fast-import", "--quiet"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Stdin, cmd.Env = &stream, registrytest.GitEnvironment()
		if args[0] == "init" {
			cmd.Stdin = nil
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	server, err := registrytest.GitServer(dir)
	if err == nil {
		u.git.Store(&server)
	}
	return err
}

// answerGit answers a request of git.
func (u *registry) answerGit(w http.ResponseWriter, r *http.Request) error {
	server := u.git.Load()
	if server == nil {
		return os.ErrNotExist
	}
	http.StripPrefix(strings.TrimSuffix(gitPath, "/"), *server).ServeHTTP(w, r)
	return nil
}

// source is the location of a version of a module: an archive, or a tag of the repository.
func (u *registry) source(version string) string {
	name := path.Base(path.Dir(path.Dir(version)))
	if tag, _, _ := strings.Cut(name, "-"); strings.HasPrefix(tag, fromGit) {
		return "git::" + u.url + gitPath + "modules.git?ref=" + tag
	}
	return u.url + "/archives/" + version + ".tar.gz"
}

// answerProvider answers a request for a provider, whose name has the size of its package, or for a file of its release.
func (u *registry) answerProvider(w http.ResponseWriter, r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/") // v1/providers/acme/NAME/…, or releases/acme/NAME/FILE
	if len(parts) < 4 {
		return os.ErrNotExist
	}
	address, rest := strings.Join(parts[2:4], "/"), parts[4:]
	if parts[0] == "releases" {
		address, rest = strings.Join(parts[1:3], "/"), parts[3:]
	}
	size, _, err := likeness(address + "/any")
	if err != nil {
		return err
	}
	type object = map[string]any
	file := "terraform-provider-" + path.Base(address) + "_1.0.0_"
	below := u.url + "/releases/" + address + "/" + file
	zipped, err := zippedProvider(address, size)
	if err != nil {
		return err
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(zipped))
	sums := digest + "  " + file + platform + ".zip\n"
	signature, key, err := registrytest.Sign("acme", []byte(sums))
	if err != nil {
		return err
	}
	switch strings.Join(rest, "/") {
	case "versions":
		return json.NewEncoder(w).Encode(object{"versions": []object{{
			"version": "1.0.0", "protocols": []string{"5.0"}, "platforms": []object{{"os": "linux", "arch": "amd64"}},
		}}})
	case "1.0.0/download/linux/amd64":
		return json.NewEncoder(w).Encode(object{
			"protocols": []string{"5.0"}, "os": "linux", "arch": "amd64", "filename": file + platform + ".zip", "shasum": digest,
			"download_url": below + platform + ".zip", "shasums_url": below + "SHA256SUMS", "shasums_signature_url": below + "SHA256SUMS.sig",
			"signing_keys": object{"gpg_public_keys": []object{{"ascii_armor": key}}},
		})
	case file + "SHA256SUMS":
		_, err = io.WriteString(w, sums)
	case file + "SHA256SUMS.sig":
		_, err = w.Write(signature)
	case file + platform + ".zip":
		_, err = w.Write(zipped)
	default:
		err = os.ErrNotExist
	}
	return err
}

// zippedProvider is a package with a program of size bytes that do not compress.
func zippedProvider(address string, size int) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	header := &zip.FileHeader{Name: "terraform-provider-" + path.Base(address) + "_v1.0.0", Method: zip.Store}
	header.SetMode(0o755)
	data := make([]byte, size)
	rand.NewChaCha8(sha256.Sum256([]byte(address))).Read(data) // never fails
	w, err := z.CreateHeader(header)
	if err == nil {
		_, err = w.Write(data)
	}
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}
