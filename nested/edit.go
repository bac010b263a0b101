package nested

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/tfconfig"
)

// make makes the served form of a package and stores it, unless it is stored already or equals the package.
func (r *Registry) make(ctx context.Context, p *plan, n *node) error {
	if n.served == n.key {
		return nil
	}
	kept, err := r.Next.Exists(ctx, n.served)
	if kept || err != nil {
		return modproxy.Wrap("package", p.of, err)
	}
	opened, err := r.open(ctx, n)
	if err != nil {
		return p.wrap(n, err)
	}
	defer opened.Close()
	if opened.Sum != n.sum {
		return modproxy.Wrap("package", p.of, fmt.Errorf("%w: a package has changed meanwhile: try again", modproxy.ErrUnavailable))
	}
	made, err := r.edit(ctx, p, opened, n)
	if err != nil {
		return modproxy.Wrap("package", p.of, err)
	}
	defer made.Close()
	rec := modproxy.Record{
		Ref: n.served, Sum: made.Sum, Subdir: cmp.Or(made.Subdir, "."), Source: made.Source, Time: made.Time,
	}
	if err := r.Ledger.Add(ctx, rec); err != nil && !errors.Is(err, modproxy.ErrChanged) {
		return modproxy.Wrap("package", p.of, unknown(err))
	} else if err != nil {
		return modproxy.Wrap("package", p.of, fmt.Errorf("its rewritten form: %w", err))
	}
	return modproxy.Wrap("package", p.of, r.Next.Keep(ctx, n.served, made))
}

// edit returns a copy of a package with rewritten sources, and checks them.
func (r *Registry) edit(ctx context.Context, p *plan, from *modproxy.Package, n *node) (*modproxy.Package, error) {
	tree, err := pack.New(r.Scratch, r.Limits)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	if err := copyTo(tree, &untilDone{from, ctx}, n.calls); err != nil {
		return nil, err
	}
	made, err := tree.Package(ctx, r.Scratch, "")
	if err != nil {
		return nil, err
	}
	made.Source, made.Subdir, made.Time = modproxy.Source{URL: r.URL}, from.Subdir, time.Now()
	made.Notes = strings.TrimSpace(from.Notes + "\n" + strings.Join(firstOf(n.left, maxNotes), "\n"))
	if err = r.checkMade(ctx, p, made, n); err != nil {
		return nil, errors.Join(err, made.Close())
	}
	return made, nil
}

// untilDone is a reader that fails when its context ends.
type untilDone struct {
	io.Reader
	ctx context.Context
}

func (u *untilDone) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(p)
}

// copyTo adds the files of a package to a tree, with the sources of calls rewritten.
func copyTo(tree *pack.Builder, from io.Reader, calls []call) error {
	unzipped, err := gzip.NewReader(from)
	if err != nil {
		return err
	}
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		var of []call
		for len(calls) > 0 && calls[0].File == h.Name { // both are in the order of the package
			of, calls = append(of, calls[0]), calls[1:]
		}
		if err := tree.File(h.Name, h.Mode&0o100 != 0, &editor{from: files, calls: of}); err != nil {
			return err
		}
	}
	if len(calls) > 0 {
		return fmt.Errorf("%w: it has no file %q", modproxy.ErrInvalid, calls[0].File)
	}
	_, err = io.Copy(io.Discard, from) // reading to the end verifies the package
	return err
}

// editor reads a file in which the texts of calls replace their expressions.
type editor struct {
	from  io.Reader
	at    int // offset in from
	calls []call
	text  string // the rest of the text that replaces an expression
}

func (e *editor) Read(p []byte) (n int, err error) {
	for e.text == "" && len(e.calls) > 0 {
		c := e.calls[0]
		if c.Start < e.at || c.End < c.Start {
			return 0, fmt.Errorf("%w: sources overlap", modproxy.ErrInvalid)
		}
		if before := c.Start - e.at; before > 0 {
			p = p[:min(len(p), before)]
			break
		}
		if _, err := io.CopyN(io.Discard, e.from, int64(c.End-c.Start)); err != nil {
			return 0, unexpected(err)
		}
		e.at, e.text, e.calls = c.End, c.text, e.calls[1:]
	}
	if e.text != "" {
		n = copy(p, e.text)
		e.text = e.text[n:]
		return n, nil
	}
	n, err = e.from.Read(p)
	e.at += n
	if len(e.calls) > 0 {
		if err = unexpected(err); e.at == e.calls[0].Start && err == io.ErrUnexpectedEOF {
			err = nil // CopyN returns it, unless the expression is empty
		}
	}
	return n, err
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkMade reads the sources of a rewritten package: exactly those that were to change have changed.
func (r *Registry) checkMade(ctx context.Context, p *plan, made *modproxy.Package, n *node) error {
	tree := tfconfig.PackageTree(made.Digest, func() (io.ReadCloser, error) {
		_, err := made.Seek(0, io.SeekStart)
		return io.NopCloser(made), err
	})
	c, err := p.readSources(ctx, r.Reader, tree)
	if err != nil { // a rewritten file may exceed the size limit
		err = fmt.Errorf("after its sources were rewritten: %w", err)
	}
	if err == nil && len(c.Sources) != len(n.sources) {
		err = fmt.Errorf("%w: a bug in modproxy: a package has %d sources, but %d after they were rewritten",
			modproxy.ErrUnavailable, len(n.sources), len(c.Sources))
	}
	calls := n.calls
	for i := 0; err == nil && i < len(c.Sources); i++ {
		want := n.sources[i]
		if len(calls) > 0 && calls[0].Source == want {
			want.Source, calls = calls[0].text[1:len(calls[0].text)-1], calls[1:]
		}
		if is := c.Sources[i]; is.File != want.File || is.Source != want.Source || is.Dynamic != want.Dynamic {
			err = fmt.Errorf("%w: a bug in modproxy: the source at %s changed when another one was rewritten", modproxy.ErrUnavailable, is.Place())
		}
	}
	if err == nil {
		_, err = made.Seek(0, io.SeekStart)
	}
	return err
}
