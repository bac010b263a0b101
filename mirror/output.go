package mirror

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/versionname"
)

// chunkSize is the maximum length of the Data of a Line, in bytes.
const chunkSize = 256 << 10

// output sends the packages of a run, each once, with the content that the request wants.
type output struct {
	lines    chan Line
	registry modproxy.Registry // returns the content
	progress *progress
	request  Request

	sending sync.Mutex               // held while the lines of a package and its content are sent, so that they follow each other
	sent    map[modproxy.Digest]bool // content that the client has; guarded by sending

	mu       sync.Mutex               // guards the fields below
	received map[modproxy.Ref]Package // packages that the registry of the run has returned
	emitted  map[modproxy.Ref]bool    // the ones that were sent
}

func newOutput(in Request, registry modproxy.Registry, progress *progress) *output {
	o := &output{
		lines: make(chan Line), registry: registry, progress: progress, request: in,
		sent: map[modproxy.Digest]bool{}, received: map[modproxy.Ref]Package{}, emitted: map[modproxy.Ref]bool{},
	}
	for _, digest := range in.Have {
		o.sent[digest] = true
	}
	return o
}

// record records a package that the registry of the run has returned.
func (o *output) record(v modproxy.Ref, p *modproxy.Package) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.received[v]; !ok {
		o.received[v] = Package{
			Name: versionname.Of(v), Size: p.Size, Sum: p.Sum, Digest: p.Digest, Hashes: p.Facts.Hashes, Subdir: p.Subdir,
			Fetched: !p.Time.Before(o.progress.began),
		}
	}
}

// emitPackage sends a package that was recorded, unless it was sent before, and its content if the request wants it.
func (o *output) emitPackage(ctx context.Context, v modproxy.Ref) error {
	o.sending.Lock()
	defer o.sending.Unlock()
	p, isNew := o.take(v)
	if !isNew {
		return nil
	}
	wanted, digest, size := o.wantsContent(v, p), p.Digest, p.Size
	p.Data = wanted
	o.emit(ctx, Line{Package: &p}) // p now belongs to the receiver
	if !wanted {
		return ctx.Err()
	}
	o.sent[digest] = true
	return o.emitContent(ctx, v, size)
}

// take returns a recorded package. isNew reports whether take was not called for it before.
func (o *output) take(v modproxy.Ref) (p Package, isNew bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p, isNew = o.received[v], !o.emitted[v]
	if isNew {
		o.emitted[v] = true
		o.progress.addPackage(p)
	}
	return p, isNew
}

// wantsContent reports whether the content of a package is sent. The caller holds o.sending.
func (o *output) wantsContent(v modproxy.Ref, p Package) bool {
	if !o.request.Content || o.sent[p.Digest] {
		return false
	}
	if v.Content() == modproxy.ReleaseContent {
		return false
	}
	return !slices.ContainsFunc(p.Hashes.All(), func(sum modproxy.Sum) bool { return slices.Contains(o.request.HaveDirectories, sum) })
}

// emitContent sends the content of a package, whose size is given in bytes. The caller holds o.sending.
func (o *output) emitContent(ctx context.Context, v modproxy.Ref, size int64) error {
	content, err := o.registry.Package(ctx, v)
	if err != nil {
		return err
	}
	defer content.Close()
	for left := size; left > 0; {
		chunk := make([]byte, min(left, chunkSize))
		if _, err := io.ReadFull(content, chunk); err != nil {
			return fmt.Errorf("%w: %s: %w", modproxy.ErrUnavailable, v.Shown(), err)
		}
		left -= int64(len(chunk))
		o.emit(ctx, Line{Data: chunk})
	}
	return ctx.Err()
}

// emit sends a line, which then belongs to the receiver.
func (o *output) emit(ctx context.Context, line Line) {
	select {
	case o.lines <- line:
	case <-ctx.Done():
	}
}

// emittedPackages returns the packages that were sent.
func (o *output) emittedPackages() map[modproxy.Ref]Package {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := maps.Clone(o.received)
	maps.DeleteFunc(all, func(v modproxy.Ref, _ Package) bool { return !o.emitted[v] })
	return all
}
