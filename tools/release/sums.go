package main

import (
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const sumsName = "SHA256SUMS"

// writeSums writes SHA256SUMS: the checksums of all files, in the format of sha256sum.
func (r *release) writeSums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(r.out, sumsName), []byte(sums.String()), 0o644)
}

// sign writes SHA256SUMS.sig, the signature of SHA256SUMS by an SSH key, in the namespace "file" of ssh-keygen. key is the file of a private
// key, or of a public key whose private key an agent has. If key is empty, sign logs that the release is not signed.
func (r *release) sign(key string) error {
	if key == "" {
		log.Printf("NOT SIGNED: no key was given; \"make release KEY=FILE\" signs %s with an SSH key", sumsName)
		return nil
	}
	cmd := exec.Command("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "file", filepath.Join(r.out, sumsName))
	cmd.Stdin = os.Stdin // for the passphrase
	_, err := output(cmd)
	return err
}
