package registrytest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// make makes the files of one version of a provider.
func (r *release) make(address, version string, fill func([]byte) ([]byte, error)) error {
	knobs, err := fill(r.knobs)
	if err != nil {
		return err
	}
	if err := r.turn(string(knobs)); err != nil {
		return err
	}
	r.address, r.version = address, version
	r.prefix = "terraform-provider-" + path.Base(address) + "_" + version + "_"
	r.sums, r.blobs = map[string]string{}, map[string]blob{}
	for _, platform := range r.platforms {
		said, sent, err := r.zips(platform, fill)
		if err != nil {
			return err
		}
		name := r.zipName(platform)
		r.sums[name], r.blobs[name] = fmt.Sprintf("%x", said.sum), sent
	}
	list := r.list()
	r.blobs[r.listName()] = blobOf(list)
	return r.sign(list)
}

func (r *release) zipName(platform string) string {
	prefix := r.prefix
	switch r.names {
	case "odd":
		platform = strings.Replace(platform, "_", ".", 1)
	case "v":
		prefix = strings.Replace(prefix, "_"+r.version+"_", "_v"+r.version+"_", 1)
	case "old":
		prefix = strings.Replace(prefix, "_"+r.version+"_", "_0.9.0_", 1)
	}
	return prefix + platform + ".zip"
}

func (r *release) listName() string { return r.prefix + "SHA256SUMS" }

// zips returns the zip in the registry's documents, and the zip that the registry sends.
func (r *release) zips(platform string, fill func([]byte) ([]byte, error)) (said, sent blob, err error) {
	files := slices.Clone(r.files)
	if len(files) == 0 {
		text := fmt.Sprintf("#!/bin/sh\n# %s %s {platform}\nexit 1\n", r.address, r.version)
		name := "terraform-provider-" + path.Base(r.address) + "_v" + r.version
		files = []file{{name: name, data: []byte(text), exec: true}}
	}
	for i, f := range files {
		if files[i].data, err = fill(bytes.ReplaceAll(f.data, []byte("{platform}"), []byte(platform))); err != nil {
			return blob{}, blob{}, err
		}
	}
	if r.size > 0 {
		files = append(files, file{name: "data", random: int64(r.size) << 20})
	}
	zipped := func(more ...file) (blob, error) {
		return newBlob(func(w io.Writer) error {
			return writeZip(w, slices.Concat(files, more), path.Join(r.address, r.version, platform))
		})
	}
	switch r.zip {
	case "text":
		said = blobOf([]byte("This is a text.\n"))
	case "page":
		said = blobOf([]byte("<!DOCTYPE html><title>Sign in</title>"))
	case "directories":
		said, err = zipped(file{name: "directory/"}, file{name: "directory/file"})
	default:
		said, err = zipped()
	}
	sent = said
	switch {
	case err != nil:
	case r.zip == "changed":
		sent, err = zipped(file{name: "changed"})
	case r.zip == "truncated":
		said, err = said.half()
		sent = said
	}
	return said, sent, err
}

// list returns the document with the checksums.
func (r *release) list() []byte {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		sum := r.sums[name]
		if r.sumsAre == "wrong" {
			sum = fmt.Sprintf("%x", sha256.Sum256([]byte(sum)))
		}
		lines = append(lines, sum+"  "+name+"\n")
	}
	other := fmt.Sprintf("%x  %sother", sha256.Sum256(nil), r.prefix)
	switch r.sumsAre {
	case "manifest":
		lines = append(lines, fmt.Sprintf("%x  %smanifest.json\n", sha256.Sum256([]byte(r.prefix)), r.prefix))
	case "missing":
		lines = []string{other + "\n"}
	case "blank":
		lines = slices.Insert(lines, 1, "\n")
	case "many":
		for n := range 900 {
			lines = append(lines, fmt.Sprintf("%064x  %sother-%d\n", n+1, r.prefix, n))
		}
	case "large":
		for n := range (10 << 20) / len(other) {
			lines = append(lines, fmt.Sprintf("%s-%d\n", other, n))
		}
	}
	return []byte(strings.Join(lines, ""))
}

// sign signs the document with the checksums, and makes the keys that the registry lists. As in real releases, the name
// of the signature contains the id of the key.
func (r *release) sign(list []byte) error {
	signer, err := newKey(r.key)
	if err != nil {
		return err
	}
	if r.signature == "wrong" {
		list = append(list, '\n')
	}
	signature, err := signer.sign(list)
	if err != nil {
		return err
	}
	switch r.signature {
	case "empty":
		signature = nil
	case "armored":
		text, err := armored(openpgp.SignatureType, signature)
		if err != nil {
			return err
		}
		signature = []byte(text)
	}
	r.signatureName = r.listName() + "." + signer.id()[8:] + ".sig"
	r.blobs[r.signatureName] = blobOf(signature)
	r.listedKeys = []any{}
	for _, name := range r.keys {
		listed, err := listedKey(name)
		if err != nil {
			return err
		}
		r.listedKeys = append(r.listedKeys, listed)
	}
	return nil
}
