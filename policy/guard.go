package policy

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// guard reads a package while the package is allowed.
type guard struct {
	modproxy.Body
	registry *Registry
	ctx      context.Context
	version  modproxy.Ref
	sum      modproxy.Sum
	state    *state // the state that allowed the package; nil if the package must be judged again
	judged   time.Time
}

// Read returns a [*Refusal] once the package is refused.
func (g *guard) Read(p []byte) (int, error) {
	if err := g.check(); err != nil {
		return 0, err
	}
	return g.Body.Read(p)
}

// Verify implements [modproxy.Body]. It returns a [*Refusal] if the package is denied by now.
func (g *guard) Verify(ctx context.Context) error {
	if err := g.check(); err != nil {
		return err
	}
	return g.Body.Verify(ctx)
}

// WriteTo implements [io.WriterTo], so that packages in memory are not copied.
func (g *guard) WriteTo(w io.Writer) (int64, error) {
	if from, ok := g.Body.(io.WriterTo); ok {
		return from.WriteTo(&guardedWriter{g, w})
	}
	return io.Copy(w, struct{ io.Reader }{g})
}

// SendTo implements [modproxy.Sender].
func (g *guard) SendTo(w io.Writer, n int64) (int64, error) {
	if from, ok := g.Body.(modproxy.Sender); ok {
		return from.SendTo(&guardedWriter{g, w}, n)
	}
	return io.CopyN(struct{ io.Writer }{w}, g, n)
}

// check returns an error if the package is refused by now.
func (g *guard) check() error {
	s, err := g.registry.Gate.now(g.ctx)
	if err != nil {
		return err
	}
	if s != g.state || !s.idle() && !s.rules.Audit && time.Since(g.judged) > rereadAfter {
		if err := g.registry.pass(g.ctx, s, s.ofVersion(g.ctx, g.version), "package", g.version, g.sum); err != nil {
			return err
		}
		g.state, g.judged = s, time.Now()
	}
	return nil
}

// guardedWriter writes to a writer while a package is allowed.
type guardedWriter struct {
	guard *guard
	io.Writer
}

const guardedPiece = 64 << 10 // bytes written between two checks

func (w *guardedWriter) Write(p []byte) (written int, err error) {
	for piece := range slices.Chunk(p, guardedPiece) {
		if err := w.guard.check(); err != nil {
			return written, err
		}
		n, err := w.Writer.Write(piece)
		if written += n; err != nil {
			return written, err
		}
	}
	return written, nil
}

// ReadFrom implements [io.ReaderFrom], so that files are not copied.
func (w *guardedWriter) ReadFrom(r io.Reader) (written int64, err error) {
	to, ok := w.Writer.(io.ReaderFrom)
	file, limited := r.(*io.LimitedReader)
	if !ok || !limited {
		return io.Copy(struct{ io.Writer }{w}, r)
	}
	for err == nil && file.N > 0 {
		if err = w.guard.check(); err != nil {
			break
		}
		piece := io.LimitedReader{R: file.R, N: min(file.N, guardedPiece)}
		var n int64
		n, err = to.ReadFrom(&piece)
		file.N -= n
		if written += n; n == 0 {
			break
		}
	}
	return written, err
}
