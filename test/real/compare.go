package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/modproxy/modproxy/test/rig"
)

// compareAll compares every version of every repository. The code is 1 if any differs or is refused.
func (s *settings) compareAll(ctx context.Context) (int, error) {
	gitHome = s.dir
	repos, err := findRepos(ctx, s.repos, s.form)
	if err != nil {
		return 1, err
	}
	done, err := openBook(s.state)
	if err != nil {
		return 1, err
	}
	for _, r := range repos {
		r.versions = r.versions[:min(len(r.versions), s.most)]
	}
	if err := s.serveInternet(repos); err != nil {
		return 1, err
	}
	p, err := s.startProxy(ctx, repos)
	if err != nil {
		return 1, err
	}
	defer p.server.Stop()
	if s.closure {
		return s.compareClosures(ctx, repos, p)
	}
	code := 0
	for _, r := range repos {
		if !strings.Contains(r.String(), s.only) || len(r.versions) == 0 {
			continue
		}
		if s.form == formAbbreviated && r.partial {
			fmt.Printf("%s, %s: not compared: an abbreviated id needs all objects, and some are missing\n", r, s.form)
			continue
		}
		if err := s.compare(ctx, r, p, done); err != nil {
			return 1, fmt.Errorf("%s: %w", r, err)
		}
		ok, err := done.summary(ctx, r, s.form, p)
		if err != nil {
			return 1, err
		}
		if !ok {
			code = 1
		}
	}
	return code, nil
}

// compare compares every version of r, s.jobs at a time, and then the newest with the installations of the clients.
func (s *settings) compare(ctx context.Context, r *repo, p *proxy, done *book) error {
	queue := make(chan string)
	errs := make([]error, s.jobs)
	var group sync.WaitGroup
	for i := range s.jobs {
		group.Go(func() {
			dir := filepath.Join(s.dir, fmt.Sprint("checkout-", i))
			for version := range queue {
				if errs[i] == nil && ctx.Err() == nil {
					errs[i] = s.compareOne(ctx, r, version, dir, p, done)
				}
			}
		})
	}
	for _, version := range r.versions {
		if done.outcome(r, version, s.form) == "" {
			queue <- version
		}
	}
	close(queue)
	group.Wait()
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return err
	}
	return s.compareClients(ctx, r, p, done)
}

func (s *settings) compareOne(ctx context.Context, r *repo, version, dir string, p *proxy, done *book) error {
	defer os.RemoveAll(dir)
	res := result{Repo: r.String(), Version: version, Way: s.form}
	failed := s.direct(ctx, r, r.refs[version], dir)
	_, subdirectory, err := s.location(ctx, r, version)
	if err != nil {
		return err
	}
	got, at, err := p.install(ctx, r, version)
	if err != nil && !errors.As(err, new(refusal)) || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	var want map[string]file
	if failed == nil {
		var loop string
		if want, loop, failed = readTree(dir); loop != "" {
			res.Why = fmt.Sprintf("(a link that leads back to itself: %s) ", loop)
		}
	}
	switch {
	case failed != nil && err != nil:
		res.Outcome, res.Why = neither, fmt.Sprintf("%v; modproxy: %v", failed, err)
	case failed != nil:
		res.Outcome, res.Why = differs, fmt.Sprintf("git fails, but modproxy serves %d files: %v", len(got), failed)
	case err != nil:
		res.Outcome, res.Why = refused, res.Why+err.Error()
	case at != subdirectory:
		res.Outcome, res.Why = differs, fmt.Sprintf("the module is in %q, but modproxy names %q", subdirectory, at)
	default:
		res.Outcome, res.Why = diff(got, want)
	}
	return done.add(res)
}

// compareClients installs the newest equal version with the clients.
func (s *settings) compareClients(ctx context.Context, r *repo, p *proxy, done *book) error {
	i := slices.IndexFunc(r.versions, func(v string) bool { return done.outcome(r, v, s.form) == equal })
	if i < 0 {
		return nil
	}
	version, dir := r.versions[i], filepath.Join(s.dir, "checkout")
	defer os.RemoveAll(dir)
	var want map[string]file
	for _, tool := range s.tools {
		way := s.form + " by " + filepath.Base(tool)
		if done.outcome(r, version, way) != "" {
			continue
		}
		if want == nil {
			if err := s.direct(ctx, r, r.refs[version], dir); err != nil {
				return err
			}
			var err error
			if want, _, err = readTree(dir); err != nil {
				return err
			}
		}
		if err := s.get(ctx, r, version, way, tool, p, dir, want, done); err != nil {
			return err
		}
	}
	return nil
}

// get installs one version with a client, through modproxy and directly, and compares both with want, the files in
// checkout. Called modules without a repository here are left out.
func (s *settings) get(
	ctx context.Context, r *repo, version, way, tool string, p *proxy, checkout string, want map[string]file, done *book,
) error {
	location, _, err := s.location(ctx, r, version)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.dir, "client-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	i := &rig.Installation{
		Dir: dir, CAFile: filepath.Join(s.dir, "ca.pem"), Env: environment(s.dir),
		Calls: map[string]string{
			"real":   fmt.Sprintf("source = %q\nversion = %q", p.host+"/"+p.address(r), version),
			"direct": fmt.Sprintf("source = %q", location),
		},
		Registries: map[string]string{p.host: p.url + "/" + p.host + "/v1/modules/"},
	}
	installed, failed := i.Get(ctx, tool)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	direct := filepath.Join(installed, "direct")
	if archives[s.form] != "" { // the client keeps all unpacked directories
		direct = filepath.Join(direct, archiveRoot(strings.TrimPrefix(r.refs[version], "refs/tags/")))
		if err := copyLinks(checkout, direct); err != nil {
			return err
		}
	}
	for _, one := range []struct{ dir, way, missing string }{
		{filepath.Join(installed, "real"), way, refused},
		{direct, way + ", directly", neither},
	} {
		outcome, why := one.missing, strings.Join(strings.Fields(fmt.Sprint(failed)), " ")
		if got, _, err := readTree(one.dir); err == nil {
			outcome, why = diff(got, want)
		}
		if err := done.add(result{r.String(), version, one.way, outcome, why}); err != nil {
			return err
		}
	}
	return nil
}

// copyLinks copies the links of one tree to another. A client may have replaced them with files.
func copyLinks(from, to string) error {
	if _, err := os.Stat(to); err != nil {
		return nil
	}
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() != fs.ModeSymlink {
			return err
		}
		target, err := os.Readlink(name)
		at := filepath.Join(to, strings.TrimPrefix(name, from))
		return errors.Join(err, os.Remove(at), os.Symlink(target, at))
	})
}

// diff returns the outcome of comparing two trees.
func diff(got, want map[string]file) (outcome, why string) {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if w, ok := want[name]; !ok {
			list = append(list, fmt.Sprintf("%q is only in the package", name))
		} else if got[name].sum != w.sum {
			list = append(list, fmt.Sprintf("%q has other content", name))
		} else if got[name] != w {
			list = append(list, fmt.Sprintf("%q: executable is %v", name, got[name].executable))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[name]; !ok {
			list = append(list, fmt.Sprintf("%q is not in the package", name))
		}
	}
	if len(list) == 0 {
		return equal, ""
	}
	return differs, fmt.Sprintf("%d differences: %s", len(list), strings.Join(list[:min(len(list), 5)], "; "))
}
