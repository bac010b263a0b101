package git

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/modproxy/modproxy"
)

// resolve fetches the commit that ref means, HEAD if it is empty, and returns its id.
//
// It asks for that one commit first, which every name and, with most servers, every whole id allows. Only when that
// is not answered is everything fetched: for abbreviated ids, for servers that give away nothing but what refs
// point at, or that know no shallow fetch.
func (r *repository) resolve(ctx context.Context, ref string) (string, error) {
	if ref == "" {
		ref = "HEAD"
	}
	format := "sha1"
	if isObjectID(ref) && len(ref) == 64 {
		format = "sha256"
	}
	for {
		if err := r.init(ctx, format); err != nil {
			return "", err
		}
		commit, err := r.fetchOne(ctx, ref)
		if err == nil {
			return commit, nil
		}
		why, hard := r.explain(ctx, err)
		if hard {
			return "", why
		}
		there, err := r.list(ctx, ref)
		if err != nil {
			why, _ := r.explain(ctx, err)
			return "", why
		}
		if there.format != "" && there.format != format && !isObjectID(ref) {
			format = there.format
			continue
		}
		if there.id == "" && !isObjectID(ref) && !isAbbreviated(ref) {
			return "", noSuchRef(ref)
		}
		return r.fetchAll(ctx, ref, there.id != "" && ref == "HEAD")
	}
}

func noSuchRef(ref string) error {
	if isObjectID(ref) {
		return fmt.Errorf("%w: no such commit", modproxy.ErrNotFound)
	}
	return fmt.Errorf("%w: no such ref", modproxy.ErrNotFound)
}

func (r *repository) init(ctx context.Context, format string) error {
	if err := os.RemoveAll(r.dir); err != nil {
		return errUnavailable(err)
	}
	err := r.read(ctx, command{args: []string{"init", "--quiet", "--bare", "--template=", "--object-format=" + format}})
	return broken(err)
}

// fetchOne fetches one commit without its history.
func (r *repository) fetchOne(ctx context.Context, ref string) (string, error) {
	want := ref
	switch {
	case isObjectID(ref):
		want = strings.ToLower(ref)
	case isAbbreviated(ref):
		// A tag goes before an abbreviated id, and that before a branch.
		want = "refs/tags/" + ref
	}
	if err := r.fetch(ctx, []string{"--depth=1"}, want); err != nil {
		return "", err
	}
	return r.revParse(ctx, "FETCH_HEAD")
}

// fetchAll fetches all branches and tags and looks for ref as a client does that has cloned the repository.
func (r *repository) fetchAll(ctx context.Context, ref string, head bool) (string, error) {
	specs := []string{"+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"}
	if head {
		specs = append(specs, "+HEAD:refs/remotes/origin/HEAD")
	}
	if err := r.fetch(ctx, nil, specs...); err != nil {
		why, _ := r.explain(ctx, err)
		return "", why
	}
	candidates := []string{ref, "refs/remotes/origin/" + ref, "refs/tags/" + ref}
	if head {
		candidates = []string{"refs/remotes/origin/HEAD"}
	}
	for _, candidate := range candidates {
		commit, err := r.revParse(ctx, candidate)
		var exit *exitError
		if !errors.As(err, &exit) {
			return commit, err
		}
	}
	return "", noSuchRef(ref)
}

// fetch runs git fetch. The refspecs go through stdin, where nothing but a refspec is expected.
func (r *repository) fetch(ctx context.Context, options []string, specs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--stdin"}
	args = append(append(args, options...), "--end-of-options", r.at.String())
	return r.connect(ctx, command{args: args, stdin: strings.Join(specs, "\n") + "\n"})
}

// revParse returns the id of the commit that expression, peeled, is.
func (r *repository) revParse(ctx context.Context, expression string) (string, error) {
	args := []string{"rev-parse", "--verify", "--quiet", "--end-of-options", expression + "^{commit}"}
	printed, err := r.output(ctx, command{args: args}, 128)
	id := strings.TrimSpace(printed)
	if err == nil && !isObjectID(id) {
		return "", fmt.Errorf("%w: git rev-parse printed no commit id", modproxy.ErrUnavailable)
	}
	return id, err
}

// listing is what a remote's list of refs says.
type listing struct {
	format string // of object ids; empty if there are no refs
	id     string // what ref names, of an annotated tag the commit; empty if it is not listed
}

// list asks the remote for its refs, and looks for ref; empty stands for HEAD. Of an abbreviated id only a tag is
// looked for: the id goes before a branch.
func (r *repository) list(ctx context.Context, ref string) (listing, error) {
	named := names(cmp.Or(ref, "HEAD"))
	if isAbbreviated(ref) {
		named = []string{"refs/tags/" + ref}
	}
	var wanted []string // what comes first counts
	for _, name := range named {
		wanted = append(wanted, name+"^{}", name)
	}
	var l listing
	err := r.connect(ctx, command{
		args: []string{"ls-remote", "--quiet", "--end-of-options", r.at.String()},
		stdout: func(stdout io.Reader) error {
			lines := bufio.NewScanner(stdout)
			for lines.Scan() {
				id, name, _ := strings.Cut(lines.Text(), "\t")
				switch len(id) {
				case 40:
					l.format = "sha1"
				case 64:
					l.format = "sha256"
				}
				if at := slices.Index(wanted, name); at >= 0 && isObjectID(id) {
					wanted, l.id = wanted[:at], id
				}
			}
			return errUnavailable(lines.Err())
		},
	})
	return l, err
}
