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

// writeSums writes the checksums of all files, as "sha256sum --check" reads them.
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

// sign signs the checksums with an SSH key, which may be a public key whose private key an agent has. The signature is in
// SHA256SUMS.sig, and is about a file: namespace "file" of ssh-keygen.
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
