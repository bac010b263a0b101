package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

const (
	registryHost = "registry.terraform.io"
	forgeHost    = "github.com"
)

// registries are the default registries of the clients.
var registries = []string{registryHost, "registry.opentofu.org"}

// A repo is a bare repository and the module made of it.
type repo struct {
	owner, name string
	dir         string
	address     string            // namespace/name/system
	refs        map[string]string // ref by canonical version: refs/tags/v1.0.0, or refs/heads/main, or HEAD
	versions    []string          // newest first
	partial     bool              // objects are missing, so it cannot be cloned completely
}

func (r *repo) String() string { return r.owner + "/" + r.name }

func (r *repo) url() string { return "https://" + forgeHost + "/" + r.owner + "/" + r.name }

// findRepos finds the bare repositories below root, and their versions in a form.
func findRepos(ctx context.Context, root, form string) ([]*repo, error) {
	var all []*repo
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		for _, part := range []string{"HEAD", "objects", "refs"} {
			if _, err := os.Stat(filepath.Join(name, part)); err != nil {
				return nil
			}
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		parts := strings.FieldsFunc(strings.TrimSuffix(rel, ".git"), func(r rune) bool { return r == filepath.Separator || r == '+' })
		if n := len(parts); n > 0 && (parts[n-1] == "repo" || parts[n-1] == "") {
			parts = parts[:n-1]
		}
		if len(parts) < 2 {
			return fmt.Errorf("%s: want a path that ends in owner and name of the repository", name)
		}
		r := &repo{owner: parts[len(parts)-2], name: parts[len(parts)-1], dir: name}
		if err := errors.Join(r.list(ctx, form), r.check(ctx)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
		return fs.SkipDir
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s has no bare repository", root)
	}
	return all, err
}

// list finds the versions among the tags. If two tags name one version, the one without a v counts. In formBranch the
// versions are HEAD and the branches, by their numbers.
func (r *repo) list(ctx context.Context, form string) error {
	r.address = r.owner + "/" + r.name + "/none"
	if parts := strings.SplitN(r.name, "-", 3); len(parts) == 3 && parts[0] == "terraform" {
		r.address = r.owner + "/" + parts[2] + "/" + parts[1]
	}
	r.refs = map[string]string{}
	if form == formBranch {
		return r.listBranches(ctx)
	}
	out, err := git(ctx, r.dir, "for-each-ref", "--format=%(refname:strip=2)", "refs/tags")
	if err != nil {
		return err
	}
	parsed := map[string]modproxy.Version{}
	for tag := range strings.Lines(out) {
		tag = strings.TrimSpace(tag)
		bare := strings.TrimPrefix(tag, "v")
		if core, _, _ := strings.Cut(strings.ReplaceAll(bare, "+", "-"), "-"); strings.Count(core, ".") != 2 {
			continue
		}
		v, err := modproxy.ParseVersion(bare)
		if err != nil {
			continue
		}
		canonical := v.String()
		if _, ok := r.refs[canonical]; ok && strings.HasPrefix(tag, "v") {
			continue
		}
		r.refs[canonical], parsed[canonical] = "refs/tags/"+tag, v
	}
	for v := range r.refs {
		r.versions = append(r.versions, v)
	}
	slices.SortFunc(r.versions, func(a, b string) int { return cmp.Or(parsed[b].Compare(parsed[a]), strings.Compare(a, b)) })
	return nil
}

func (r *repo) listBranches(ctx context.Context) error {
	out, err := git(ctx, r.dir, "for-each-ref", "--format=%(refname)", "refs/heads")
	for i, ref := range append([]string{"HEAD"}, strings.Fields(out)...) {
		version := fmt.Sprintf("0.0.%d", i)
		r.refs[version] = ref
		r.versions = append(r.versions, version)
	}
	slices.Reverse(r.versions)
	return err
}

// check finds out whether r can be cloned completely.
func (r *repo) check(ctx context.Context) error {
	objects, err := git(ctx, r.dir, "rev-list", "--objects", "--all", "--missing=print")
	r.partial = strings.Contains(objects, "\n?")
	return err
}
