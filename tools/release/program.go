package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

type platform struct{ os, arch string }

// program returns the path of the program for a platform. The first call builds it.
func (r *release) program(p platform) (string, error) {
	program := filepath.Join(r.temp, "modproxy_"+p.os+"_"+p.arch)
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", r.version, r.commit), "-o", program, "./cmd/modproxy")
	cmd.Dir = r.dir
	// Overrides settings of the caller that would change the program.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off",
		"GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0")
	_, err := output(cmd)
	return program, err
}

// writeProgram writes the program for a platform. If no test runs the program, the name of the file says so.
func (r *release) writeProgram(p platform) error {
	program, err := r.program(p)
	if err != nil {
		return err
	}
	name := r.name(p)
	if p.os != "linux" {
		name += "_built-not-run"
	}
	return r.copyFile(program, name, 0o755)
}

func (r *release) copyFile(from, name string, mode os.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), content, mode)
}
