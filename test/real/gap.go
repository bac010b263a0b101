package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

// weeks are the configurations that cross the gap, one after the other. The second one has newer modules.
//
//go:embed gap
var weeks embed.FS

// A gap is a pair of sides that exchange only files. Each side has its own directory.
type gap struct {
	*settings
	near *proxy
	rows bytes.Buffer // the steps, as lines of a table
}

// crossGap mirrors the modules of configurations on the side with an internet, and makes the clients install them on
// the side without one. The files must equal those that the clients install from the internet.
func (s *settings) crossGap(ctx context.Context) (int, error) {
	gitHome = s.dir
	repos, err := findRepos(ctx, s.repos, s.form)
	if err != nil {
		return 1, err
	}
	if err := s.serveInternet(repos); err != nil {
		return 1, err
	}
	if err := os.CopyFS(s.dir, weeks); err != nil {
		return 1, err
	}
	near, err := s.startProxy(ctx, nil)
	if err != nil {
		return 1, err
	}
	defer near.server.Stop()
	g := &gap{settings: s, near: near}
	before := ""
	for _, week := range []string{"week1", "week2"} {
		if before, err = g.cross(ctx, week, before); err != nil {
			return 1, fmt.Errorf("%s: %w", week, err)
		}
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "week\tside\tstep\ttime\tresult\n", g.rows.String())
	return 0, table.Flush()
}

// row calls f, and writes its duration and result as a line.
func row(to io.Writer, when, where, what string, f func() (string, error)) error {
	began := time.Now()
	came, err := f()
	if err != nil {
		return fmt.Errorf("%s: %s: %w", where, what, err)
	}
	_, err = fmt.Fprintf(to, "%s\t%s\t%s\t%.2f s\t%s\n", when, where, what, time.Since(began).Seconds(), came)
	return err
}

// cross carries the modules of one week across the gap, in a bundle that follows an earlier one. It returns its own
// bundle.
func (g *gap) cross(ctx context.Context, week, before string) (string, error) {
	config, bundle := filepath.Join(g.dir, "gap", week), filepath.Join(g.dir, week+".bundle")
	type step struct {
		what string
		do   func() (string, error)
	}
	var steps []step
	for _, tool := range g.tools {
		steps = append(steps, step{filepath.Base(tool) + " get, direct", func() (string, error) {
			dir, err := g.configuration("direct", week, tool)
			if err == nil {
				_, err = command(ctx, dir, environment(g.dir), tool, "get", "-no-color")
			}
			return "", err
		}})
	}
	mirror := func(more ...string) (string, error) {
		return mirrored(g.modproxy(ctx, append([]string{"mirror", "--providers=false", "--json", "--strict", config}, more...)...))
	}
	news := ""
	steps = append(steps, step{"mirror", func() (came string, err error) {
		news, err = mirror()
		return news, err
	}}, step{"mirror again", func() (string, error) {
		return mirror()
	}}, step{"mirror --check", func() (string, error) {
		return mirror("--check")
	}}, step{"export", func() (string, error) {
		args := []string{"export", "--json", bundle}
		if before != "" {
			args = append(args, "--since", before)
		}
		came, versions, err := exported(g.modproxy(ctx, args...))
		if err == nil && !strings.Contains(news, fmt.Sprintf(" %d packages downloaded", versions)) {
			err = fmt.Errorf("%s: the export differs from the new packages: %s", came, news)
		}
		return came, err
	}})
	for _, s := range steps {
		if err := row(&g.rows, week, "connected", s.what, s.do); err != nil {
			return "", err
		}
	}
	key, err := g.modproxy(ctx, "ledger", "key")
	if err != nil {
		return "", err
	}
	if err := g.enterFar(week, strings.TrimSpace(key), &g.rows); err != nil {
		return "", err
	}
	for _, tool := range g.tools {
		if err := g.same(week, tool); err != nil {
			return "", fmt.Errorf("%s: %w", filepath.Base(tool), err)
		}
	}
	return bundle, nil
}

// modproxy runs a verb on the connected side.
func (g *gap) modproxy(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "", g.near.env, g.near.program, args...)
}

// configuration copies the configuration of a week to a side, for one client.
func (s *settings) configuration(side, week, tool string) (string, error) {
	dir := filepath.Join(s.dir, side, week, filepath.Base(tool))
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	return dir, os.CopyFS(dir, os.DirFS(filepath.Join(s.dir, "gap", week)))
}

// same compares the files that a client has installed on the far side with those from the internet, and writes their
// number.
func (g *gap) same(week, tool string) error {
	modules := func(side string) string {
		return filepath.Join(g.dir, side, week, filepath.Base(tool), ".terraform", "modules")
	}
	return row(&g.rows, week, "both", filepath.Base(tool)+": files compared", func() (string, error) {
		want, _, err := readTree(modules("direct"))
		if err != nil {
			return "", err
		}
		got, _, err := readTree(modules("far"))
		if err != nil {
			return "", err
		}
		if outcome, why := diff(got, want); outcome != equal {
			return "", fmt.Errorf("the far side has other files: %s", why)
		}
		list, err := os.ReadFile(filepath.Join(modules("far"), "modules.json"))
		if err != nil {
			return "", err
		}
		var installed struct{ Modules []struct{ Version string } }
		if err := json.Unmarshal(list, &installed); err != nil {
			return "", err
		}
		calls := 0
		for _, m := range installed.Modules {
			if m.Version != "" {
				calls++
			}
		}
		return fmt.Sprintf("%d files of %d calls of registry modules are equal", len(got), calls), nil
	})
}

// mirrored describes the result of "modproxy mirror --json".
func mirrored(out string, err error) (string, error) {
	var all struct {
		Summary struct {
			Asked, Fetched, Kept int
			Bytes                int64
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	d := all.Summary
	return fmt.Sprintf("%d modules requested, %d packages downloaded, %.1f MB, %d cached before",
		d.Asked, d.Fetched, float64(d.Bytes)/1e6, d.Kept), err
}

// exported describes the result of "modproxy export --json", and returns the number of versions.
func exported(out string, err error) (came string, versions int, _ error) {
	var all struct {
		Summary struct {
			Sequence           int64
			Versions, Packages int
		}
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &all)
	}
	b := all.Summary
	return fmt.Sprintf("bundle %d: %d versions, %d packages", b.Sequence, b.Versions, b.Packages), b.Versions, err
}
