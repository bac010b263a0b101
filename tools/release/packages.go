package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// writePackages writes the .deb and the .rpm for a platform, as packaging/nfpm.yaml describes them.
func (r *release) writePackages(p platform) error {
	stage, err := r.stage(p)
	if err != nil {
		return err
	}
	if err := os.Chdir(r.dir); err != nil { // paths in nfpm.yaml are relative to the source
		return err
	}
	for _, format := range []string{"deb", "rpm"} {
		values := map[string]string{"VERSION": r.version, "ARCH": p.arch, "STAGE": stage}
		config, err := nfpm.ParseFileWithEnvMapping(filepath.Join("packaging", "nfpm.yaml"), func(name string) string { return values[name] })
		if err != nil {
			return fmt.Errorf("packaging/nfpm.yaml: %w", err)
		}
		info, err := config.Get(format)
		if err != nil {
			return fmt.Errorf("packaging/nfpm.yaml: %w", err)
		}
		info.MTime = r.time
		info.RPM.BuildHost = "localhost"
		if err := r.writePackage(format, nfpm.WithDefaults(info)); err != nil {
			return fmt.Errorf("%s for %s: %w", format, p.arch, err)
		}
	}
	return nil
}

func (r *release) writePackage(format string, info *nfpm.Info) error {
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	if err := packager.Package(info, &content); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, packager.ConventionalFileName(info)), content.Bytes(), 0o644)
}

// stage returns a directory with the files of a package that are not in the source: the program, the compressed man pages and the completions.
// The program for this machine prints the completions.
func (r *release) stage(p platform) (string, error) {
	stage := filepath.Join(r.temp, "stage_"+p.arch)
	for _, dir := range []string{"man", "completion"} {
		if err := os.MkdirAll(filepath.Join(stage, dir), 0o755); err != nil {
			return "", err
		}
	}
	program, err := r.program(p)
	if err != nil {
		return "", err
	}
	if err := os.Link(program, filepath.Join(stage, "modproxy")); err != nil {
		return "", err
	}
	native, err := r.program(platform{runtime.GOOS, runtime.GOARCH})
	if err != nil {
		return "", err
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		script, err := output(exec.Command(native, "completion", shell))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(stage, "completion", shell), []byte(script+"\n"), 0o644); err != nil {
			return "", err
		}
	}
	pages, err := filepath.Glob(filepath.Join(r.dir, "docs", "man", "*.1"))
	if err != nil {
		return "", err
	}
	for _, page := range pages {
		if err := compress(page, filepath.Join(stage, "man", filepath.Base(page)+".gz")); err != nil {
			return "", err
		}
	}
	return stage, nil
}

// compress writes a file in gzip format, without a time.
func compress(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var content bytes.Buffer
	w, err := gzip.NewWriterLevel(&content, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(to, content.Bytes(), 0o644)
}
