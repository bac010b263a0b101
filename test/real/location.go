package main

import (
	"context"
	"net/url"
	"slices"
	"strings"
)

// The forms of packages.
const (
	formGit          = "git"
	formCommit       = "commit"
	formAbbreviated  = "abbreviated"
	formBranch       = "branch"
	formSubdirectory = "subdirectory"
	formArchive      = "archive"
	formZip          = "zip"
	formTags         = "tags"
)

var forms = []string{formGit, formCommit, formAbbreviated, formBranch, formSubdirectory, formArchive, formZip, formTags}

// archives are the formats of the forms that are archives, as go-getter and git name them.
var archives = map[string]string{formArchive: "tar.gz", formZip: "zip"}

// location returns the location of a version of r for the registry, and the directory in it.
func (s *settings) location(ctx context.Context, r *repo, version string) (l, subdirectory string, err error) {
	ref := r.refs[version]
	_, name, _ := strings.Cut(strings.TrimPrefix(ref, "refs/"), "/") // empty for HEAD
	if format := archives[s.form]; format != "" {
		return r.url() + "/archive/" + name + "." + format + "//*?archive=" + format, "", nil
	}
	l = "git::" + r.url()
	query := url.Values{}
	switch s.form {
	case formCommit, formAbbreviated:
		if name, err = r.commit(ctx, ref); s.form == formAbbreviated {
			name = name[:min(len(name), 12)]
		}
	case formSubdirectory:
		if subdirectory, err = r.subdirectory(ctx, version); subdirectory != "" {
			l += "//" + subdirectory
		}
	}
	if name != "" {
		query.Set("ref", name)
	}
	if r.partial {
		query.Set("depth", "1")
	}
	return strings.TrimSuffix(l+"?"+query.Encode(), "?"), subdirectory, err
}

// commit returns the commit id of a ref.
func (r *repo) commit(ctx context.Context, ref string) (string, error) {
	id, err := git(ctx, r.dir, "rev-parse", "--verify", ref+"^{commit}")
	return strings.TrimSpace(id), err
}

// subdirectory returns a directory of a version, a different one for each version, or "" without directories.
func (r *repo) subdirectory(ctx context.Context, version string) (string, error) {
	out, err := git(ctx, r.dir, "ls-tree", "-r", "-d", "-z", "--name-only", r.refs[version])
	list := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	return list[slices.Index(r.versions, version)%len(list)], err
}
