package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// compareClosures compares, for a configuration that calls a module and each of its submodules, the versions that
// modproxy foresees with the versions that the clients install. Modules without a repository here are left out on both
// sides.
func (s *settings) compareClosures(ctx context.Context, repos []*repo, p *proxy) (code int, err error) {
	for _, r := range repos {
		if !strings.Contains(r.String(), s.only) || len(r.versions) == 0 || strings.HasSuffix(r.address, "/none") {
			continue
		}
		for _, tool := range s.tools {
			n, why, err := s.compareClosure(ctx, r, tool, p)
			switch {
			case err != nil:
				return 1, fmt.Errorf("%s: %w", r, err)
			case why != "":
				code = 1
				fmt.Printf("%s by %s: %s\n", r, filepath.Base(tool), why)
			default:
				fmt.Printf("%s by %s: %d versions, equal\n", r, filepath.Base(tool), n)
			}
		}
	}
	return code, nil
}

// downloading matches the versions in the output of a client.
var downloading = regexp.MustCompile(`(?m)^Downloading (\S+) (\S+) for `)

// compareClosure returns the number of installed versions, or why the two lists differ.
func (s *settings) compareClosure(ctx context.Context, r *repo, tool string, p *proxy) (n int, why string, err error) {
	dir, err := os.MkdirTemp(s.dir, "client-")
	if err != nil {
		return 0, "", err
	}
	defer os.RemoveAll(dir)
	out, err := git(ctx, r.dir, "ls-tree", "-d", "--name-only", r.refs[r.versions[0]], "modules/")
	if err != nil {
		return 0, "", err
	}
	i := &rig.Installation{
		Dir: dir, CAFile: filepath.Join(s.dir, "ca.pem"), Env: environment(s.dir),
		Calls:      map[string]string{"newest": fmt.Sprintf("source = %q", r.address), "older": fmt.Sprintf("source = %q\nversion = %q", r.address, "< "+r.versions[0])},
		Registries: map[string]string{},
	}
	for _, host := range registries {
		i.Registries[host] = p.url + "/" + host + "/v1/modules/"
	}
	for sub := range strings.Lines(out) {
		sub = strings.TrimSpace(sub)
		i.Calls[path.Base(sub)] = fmt.Sprintf("source = %q", r.address+"//"+sub)
	}
	_, errClient := i.Get(ctx, tool)
	work := filepath.Join(dir, "work")
	installed, err := rig.Installed(work)
	if errors.Is(err, fs.ErrNotExist) && errClient != nil { // a client that fails writes no manifest
		for _, found := range downloading.FindAllStringSubmatch(errClient.Error(), -1) {
			installed = append(installed, strings.ToLower(found[1])+" "+found[2])
		}
		slices.Sort(installed)
		installed, err = slices.Compact(installed), nil
	}
	if err != nil {
		return 0, "", fmt.Errorf("%w: %w", err, errClient)
	}
	report, errProxy := output(ctx, work, p.env, p.program, "policy", "report", "--json", "--client", filepath.Base(tool), work)
	foreseen, err := rig.Foreseen([]byte(report))
	switch {
	case err != nil:
		return 0, "", fmt.Errorf("%w: %w", err, errProxy)
	case (errClient == nil) != (errProxy == nil):
		why = fmt.Sprintf("one fails: %v; modproxy: %v", errClient, errProxy)
	case !slices.Equal(installed, foreseen):
		why = fmt.Sprintf("it installs %q, but modproxy foresees %q", installed, foreseen)
	}
	return len(installed), why, ctx.Err()
}
