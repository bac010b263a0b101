package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/pack"
)

// Package fetches the package of version from where m's registry says it is, and
// packs it. What it returns is read from a file without a name, which closing
// removes.
func (c *Client) Package(ctx context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	return c.PackageAt(ctx, v, "")
}

// PackageAt is Package, but what the git repository has at commit, unless that is
// empty, wherever the ref in the location points. What does not come from git in the
// end is [modproxy.ErrInvalid].
func (c *Client) PackageAt(ctx context.Context, v modproxy.ModuleVersion, commit string) (*modproxy.Package, error) {
	p, err := c.fetchPackage(ctx, v.Module, v.Version, commit)
	if err != nil {
		return nil, &modproxy.Error{Op: "package", Module: v.Module, Version: v.Version, Err: err}
	}
	return p, nil
}

func (c *Client) fetchPackage(ctx context.Context, m modproxy.Module, version, commit string) (*modproxy.Package, error) {
	l, ok := c.located.Get(locationKey{m, version})
	if !ok {
		var err error
		if l, err = c.locate(ctx, m, version); err != nil {
			return nil, err
		}
	}
	b, err := pack.New(c.cfg.Scratch, c.cfg.Limits)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	f := &fetch{Client: c, module: m, commit: commit, tree: b, budget: egress.NewBudget(maxRequests)}
	from, err := f.fetch(ctx, l)
	if err != nil {
		return nil, f.fixed(err)
	}
	pattern, subdir := l.SplitGlob()
	p, err := c.pack(b, path.Join(f.root, pattern), from)
	if errors.Is(err, modproxy.ErrInvalid) {
		err = fmt.Errorf("%s: %w", from.URL, err)
	}
	if err != nil {
		return nil, f.fixed(fmt.Errorf("%s: %w", from.URL, err))
	}
	p.Subdir = subdir
	return p, nil
}

// fixed is err, a [modproxy.Fixed] if it is about what cannot change.
func (f *fetch) fixed(err error) error {
	if f.named && errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrUnavailable) {
		return &modproxy.Fixed{Err: err}
	}
	return err
}

// pack packs what is below pattern into a file without a name.
func (c *Client) pack(b *pack.Builder, pattern string, from modproxy.Source) (*modproxy.Package, error) {
	file, err := scratchFile(c.cfg.Scratch)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	packed, err := b.Pack(io.MultiWriter(file, hash), pattern)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	p := &modproxy.Package{ReadSeekCloser: file, Sum: packed.Sum, Size: packed.Size, Time: time.Now(), Source: from, Notes: packed.Notes}
	hash.Sum(p.Digest[:0])
	return p, nil
}

// scratchFile is a file without a name in dir.
func scratchFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "modproxy-*.tmp")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	return f, nil
}

// maxHops bounds how often a location may lead to another by ?terraform-get=1, and
// maxRequests what is asked for one location until the package comes: on all hops,
// with redirects and further attempts. Git has its own way from where it begins.
const (
	maxHops     = 5
	maxRequests = 10
)

// fetch is the fetching of one package: where it comes from can be several hops away.
type fetch struct {
	*Client
	module modproxy.Module
	commit string // of git, in place of what the location says; may be empty
	tree   *pack.Builder
	hops   int
	root   string // of the package in the tree: what the hops say, patterns included
	budget *egress.Budget
	named  bool // by its commit or checksum, and not by a hop that could name another
}

// fetch brings what l names, but for its subdirectory, into the tree, and says
// where that came from in the end.
func (f *fetch) fetch(ctx context.Context, l located) (from modproxy.Source, err error) {
	if l.Getter == "git" {
		at := atCommit(l.URL, f.commit)
		f.named = f.hops == 0 && git.NamesCommit(at)
		commit, err := f.cfg.Git(f.module).Fetch(ctx, at, f.tree)
		if err != nil {
			return from, err
		}
		return modproxy.Source{URL: redact(l.URL), Commit: commit}, nil
	}
	s, err := parseSource(l.URL, l.direct)
	if err != nil {
		return from, fmt.Errorf("location: %w", err)
	}
	if s.archive || s.direct {
		if f.commit != "" {
			return from, fmt.Errorf("%w: %s is an archive, which has no commits", modproxy.ErrInvalid, egress.Redact(s.url))
		}
		s.own = l.credentials
		if err := f.fetchArchive(ctx, s); err != nil {
			return from, fmt.Errorf("%s: %w", egress.Redact(s.url), err)
		}
		return modproxy.Source{URL: egress.Redact(s.url)}, nil
	}
	return f.follow(ctx, s)
}

// follow asks an http location that is no archive where the package is, and
// fetches that. A subdirectory that it names is all that a client has of it, as if
// there were nothing else (getSubdir of go-getter's get_http.go).
func (f *fetch) follow(ctx context.Context, s source) (from modproxy.Source, err error) {
	if f.hops++; f.hops > maxHops {
		return from, fmt.Errorf("%w: more than %d locations that lead to another", modproxy.ErrInvalid, maxHops)
	}
	next, err := f.terraformGet(ctx, s)
	if err != nil {
		return from, fmt.Errorf("%s: %w", egress.Redact(s.url), err)
	}
	if err := f.check(ctx, f.module, next); err != nil {
		return from, fmt.Errorf("%s: %w", egress.Redact(s.url), err)
	}
	f.root = path.Join(next.Subdir, f.root)
	return f.fetch(ctx, next)
}

// atCommit is the URL of a git repository with the ref commit, unless that is empty.
func atCommit(raw, commit string) string {
	u, err := url.Parse(raw)
	if err != nil || commit == "" {
		return raw // what is wrong with it, the fetch tells
	}
	query := u.Query()
	query.Set("ref", commit)
	u.RawQuery = query.Encode()
	return u.String()
}

func redact(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return egress.Redact(u)
}
