package nested

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/protocol"
	"github.com/modproxy/modproxy/tfconfig"
)

// Bounds of one version, with the packages of its sources.
const (
	maxNodes    = 100             // sources
	maxCalls    = 20_000          // calls with a source, in all packages
	maxText     = 16 << 20        // bytes of these sources and of their file names
	maxAlso     = 100             // called directories of examples and tests
	maxReadings = 10              // of one package: a newly called directory of examples or tests causes another reading
	maxCPU      = 2 * time.Minute // of the processes that read configurations
	maxLeft     = 50              // lines about sources that stay as they are
	maxNotes    = 10              // of these lines in the notes of a package
	atOnce      = 4               // packages that are fetched or read at the same time
)

// plan describes the packages that clients receive for a version. It is immutable after plan returns it.
type plan struct {
	of    modproxy.Ref
	root  *node
	nodes map[modproxy.Ref]*node // nested sources, by key
	order []*node                // the values of nodes, in the order of discovery
	bySum map[modproxy.Sum]*node // the values of nodes, by sum
	also  []string               // called directories of examples and tests, in any package; sorted
	base  string                 // hash in the addresses of sources
	left  []string               // sources that stay as they are, with their positions

	mu          sync.Mutex
	calls, text int           // of the packages read so far, see maxCalls and maxText
	cpu         time.Duration // processor time of reading
}

// size returns the approximate size of p in memory, in bytes.
func (p *plan) size() int64 {
	size := p.text
	for _, n := range p.all() {
		size += 1<<10 + 128*len(n.sources)
		for _, c := range n.calls {
			size += 256 + len(c.text) + len(c.subdir)
		}
	}
	return int64(size)
}

func (p *plan) all() []*node { return append([]*node{p.root}, p.order...) }

// node is the package of the version, or of a nested source.
type node struct {
	key    modproxy.Ref // the stored package
	served modproxy.Ref // the served package: key, if nothing changes
	source fetch.Source // zero for the version
	place  string       // position of the first call, for messages

	sum     modproxy.Sum
	digest  modproxy.Digest
	subdir  string // from the registry
	sources []tfconfig.Source
	calls   []call
	left    []string
	read    bool // read since the last change of also
	times   int  // number of readings
}

// call is a source that is rewritten.
type call struct {
	tfconfig.Source
	to     *node
	subdir string
	text   string // the replacement
}

// plan finds all nested sources of a version, directly and through other sources. It fetches, records and stores them.
func (r *Registry) plan(ctx context.Context, v modproxy.Ref) (*plan, error) {
	p := &plan{of: v, root: &node{key: v}, nodes: map[modproxy.Ref]*node{}, bySum: map[modproxy.Sum]*node{}}
	for {
		group, reading := errgroup.WithContext(ctx)
		group.SetLimit(atOnce)
		var read []*node
		for _, n := range p.all() {
			if !n.read {
				n.read = true
				read = append(read, n)
				group.Go(func() (err error) {
					defer caught(v, &err)
					return p.wrap(n, r.look(reading, p, n))
				})
			}
		}
		if len(read) == 0 {
			break
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		err := p.include(p.root.subdir)
		for _, n := range read {
			if err == nil {
				err = r.link(ctx, p, n)
			}
		}
		if err != nil {
			return nil, modproxy.Wrap("package", v, err)
		}
	}
	for _, n := range p.order {
		p.bySum[n.sum] = n
	}
	parts := []string{form, r.URL}
	for _, n := range p.all() {
		parts = append(parts, n.key.FullVersion()+" "+string(n.sum))
	}
	p.base = hash(parts...)[:32]
	for _, n := range p.all() {
		r.write(p, n)
		p.left = append(p.left, n.left...)
	}
	p.left = firstOf(p.left, maxLeft)
	return p, nil
}

// look fetches a package and reads its sources.
func (r *Registry) look(ctx context.Context, p *plan, n *node) error {
	if n.times++; n.times > maxReadings {
		return fmt.Errorf("%w: its examples and tests call each other in more than %d steps", modproxy.ErrInvalid, maxReadings)
	}
	opened, err := r.open(ctx, n)
	if err != nil {
		return err
	}
	defer opened.Close()
	n.sum, n.digest, n.subdir = opened.Sum, opened.Digest, opened.Subdir
	tree := tfconfig.PackageTree(n.digest, func() (io.ReadCloser, error) { return r.open(ctx, n) })
	c, err := p.readSources(ctx, r.Reader, tree)
	if err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	if err := p.count(n, c.Sources); err != nil {
		return err
	}
	n.calls, n.left = nil, nil
	for _, problem := range c.Problems {
		n.leave("%s", problem)
	}
	return nil
}

// readSources reads the sources in one package of the version.
func (p *plan) readSources(ctx context.Context, reader *tfconfig.Reader, tree tfconfig.Tree) (*tfconfig.Configuration, error) {
	c, err := reader.Read(ctx, tree, tfconfig.Options{Sources: true, Also: p.also})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cpu += c.CPU; p.cpu > maxCPU { // a retry takes less, because the results of reading are stored
		return nil, fmt.Errorf("%w: reading the configurations of its sources takes more than %v of processor time: try again",
			modproxy.ErrUnavailable, maxCPU)
	}
	return c, nil
}

// count adds the sources of n to the totals of p, instead of those of an earlier reading of n.
func (p *plan) count(n *node, sources []tfconfig.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls += len(sources) - len(n.sources)
	p.text += textOf(sources) - textOf(n.sources)
	n.sources = sources
	switch {
	case p.calls > maxCalls:
		return fmt.Errorf("%w: more than %d calls in the packages of its sources", modproxy.ErrInvalid, maxCalls)
	case p.text > maxText:
		return fmt.Errorf("%w: the calls in the packages of its sources have more than %s of text", modproxy.ErrInvalid, modproxy.SizeText(maxText))
	}
	return nil
}

// textOf returns the number of bytes in the strings of sources.
func textOf(sources []tfconfig.Source) (n int) {
	for _, s := range sources {
		n += len(s.File) + len(s.Source) + len(s.Dynamic)
	}
	return n
}

func (r *Registry) open(ctx context.Context, n *node) (*modproxy.Package, error) {
	if n.source.URL != "" {
		r.Sources.expect(n.key, n.source)
	}
	return r.Next.Package(ctx, n.key)
}

// link finds the packages that n calls.
func (r *Registry) link(ctx context.Context, p *plan, n *node) error {
	for _, s := range n.sources {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		l, why := r.location(s)
		if why != "" {
			n.leave("%s: %s", s.Place(), why)
		}
		if l.URL == "" {
			continue
		}
		key, source, subdir := r.source(p.of, l)
		to := p.nodes[key]
		if to == nil {
			if len(p.order) == maxNodes {
				return fmt.Errorf("%w: more than %d nested sources; %s is one too many", modproxy.ErrInvalid, maxNodes, describe(n, s))
			}
			to = &node{key: key, place: describe(n, s), source: source}
			p.nodes[key], p.order = to, append(p.order, to)
		}
		if err := p.include(subdir); err != nil {
			return err
		}
		n.calls = append(n.calls, call{Source: s, to: to, subdir: subdir})
	}
	return nil
}

// include adds a called directory if it has examples or tests. All packages are then read again, because packages with the same sum must
// have the same sources. The results of earlier readings do not count.
func (p *plan) include(subdir string) error {
	dir := path.Clean(subdir)
	at, known := slices.BinarySearch(p.also, dir)
	switch {
	case known || !tfconfig.IsExampleOrTest(dir):
		return nil
	case len(p.also) == maxAlso:
		return fmt.Errorf("%w: more than %d directories of examples and tests are called", modproxy.ErrInvalid, maxAlso)
	}
	p.also = slices.Insert(p.also, at, dir)
	for _, n := range p.all() {
		n.read = false
	}
	return nil
}

// source returns the variant of v under which the package at a location is stored, and the directory in the package.
func (r *Registry) source(v modproxy.Ref, l modproxy.Location) (modproxy.Ref, fetch.Source, string) {
	var subdir string
	l.Subdir, subdir = l.SplitGlob()
	return v.With(modproxy.SourceVariant, hash(l.String())), fetch.Source{Location: l, Module: v.Address}, subdir
}

// Source returns the variant under which the package of a source in a package of v is stored, and the directory in it. ok is false if
// the source is not fetched. It sends no request: the caller opens the result with Config.Next. It implements Nested of package closure.
func (r *Registry) Source(v modproxy.Ref, source string) (of modproxy.Ref, subdir string, ok bool) {
	l, _ := r.location(tfconfig.Source{Source: source})
	if l.URL == "" {
		return of, "", false
	}
	v = v.Base()
	of, expected, subdir := r.source(v, l)
	r.Sources.expect(of, expected)
	return of, subdir, true
}

// location returns the location of a source that a client would fetch directly. why is the reason if such a source, or a source that may
// be one, stays as it is.
func (r *Registry) location(s tfconfig.Source) (l modproxy.Location, why string) {
	if _, local := tfconfig.ParseLocalSource(".", s.Source); local {
		return l, ""
	}
	if _, _, registry := tfconfig.ParseRegistrySource(s.Source, "registry.example.com"); registry || strings.HasPrefix(s.Source, r.URL+"/") {
		return l, ""
	}
	if s.Dynamic != "" {
		return l, "its source " + s.Dynamic
	}
	l, err := modproxy.ParseLocation(s.Source, &url.URL{})
	switch {
	case path.IsAbs(s.Source):
		return modproxy.Location{}, "its source is a path on the client's machine"
	case err != nil:
		return modproxy.Location{}, "its source cannot be fetched: " + err.Error()
	case !slices.Contains(r.Getters, l.Getter):
		return modproxy.Location{}, fmt.Sprintf("its source needs the getter %.40q and is not rewritten", l.Getter)
	}
	return l, ""
}

// firstOf returns the first n lines, and a line with the number of the others.
func firstOf(lines []string, n int) []string {
	if more := len(lines) - n; more > 0 {
		lines = append(lines[:n:n], fmt.Sprintf("and %d more", more))
	}
	return lines
}

func (n *node) leave(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if n.place != "" {
		line += ", in " + n.place
	}
	n.left = append(n.left, line)
}

// describe returns a source with its position, for messages.
func describe(n *node, s tfconfig.Source) string {
	what := fmt.Sprintf("%.200s (%s", tfconfig.RedactSource(s.Source), s.Place())
	if n.place != "" {
		what += ", in " + n.place
	}
	return what + ")"
}

// write computes the replacements in the package of n, and the variant of the result.
func (r *Registry) write(p *plan, n *node) {
	n.served = n.key
	if len(n.calls) == 0 {
		return
	}
	parts := []string{form, string(n.sum)}
	for i, c := range n.calls {
		address := r.URL + protocol.Request{Kind: protocol.KindPackage, Ref: p.of.NestedSource(p.base, c.to.sum)}.Path()
		if c.subdir != "" {
			address += "//" + c.subdir
		}
		n.calls[i].text = `"` + address + `"`
		parts = append(parts, fmt.Sprintf("%q %d %d %s", c.File, c.Start, c.End, n.calls[i].text))
	}
	n.served = p.of.With(modproxy.RewrittenVariant, hash(parts...))
}

// wrap returns the error of n as an error of the version. The address, and the time of a failed fetch, appear once.
func (p *plan) wrap(n *node, err error) error {
	if err == nil {
		return nil
	}
	if n == p.root {
		return modproxy.Wrap("package", p.of, err)
	}
	inner := err
	if named, ok := errors.AsType[*modproxy.Error](err); ok {
		inner = named.Err
	}
	if errors.As(err, new(*modproxy.NotCached)) {
		inner = &modproxy.NotCached{Ref: p.of}
	}
	inner = fmt.Errorf("nested source %s: %w", n.place, inner)
	err, once := modproxy.Wrap("package", p.of, inner), err
	if lost, ok := errors.AsType[*modproxy.FetchFailed](once); ok {
		return &modproxy.FetchFailed{Time: lost.Time, Again: lost.Again, Err: err}
	}
	return err
}

// holds reports whether a plan agrees with the ledger, where an operator may have accepted other content.
func (r *Registry) holds(ctx context.Context, p *plan) (bool, error) {
	for _, n := range p.all() {
		rec, err := r.Ledger.Lookup(ctx, n.key)
		if errors.Is(err, fs.ErrNotExist) || err == nil && rec.Sum != n.sum {
			return false, nil
		} else if err != nil {
			return false, modproxy.Wrap("package", p.of, unknown(err))
		}
	}
	return true, nil
}

// recordNames adds the records that are looked up by sum: those of the addresses of sources, and that of the served form of the version.
func (r *Registry) recordNames(ctx context.Context, p *plan) error {
	names := map[modproxy.Ref]modproxy.Ref{}
	for _, n := range p.order {
		names[p.of.NestedSource(p.base, n.sum)] = n.served
	}
	if p.root.served != p.root.key {
		rec, err := r.Ledger.Lookup(ctx, p.root.served)
		if err != nil {
			return unknown(err)
		}
		names[p.of.ServedAs(rec.Sum)] = p.root.served
	}
	for name, of := range names {
		if _, err := r.Ledger.Lookup(ctx, name); err == nil {
			continue
		}
		rec, err := r.Ledger.Lookup(ctx, of)
		if err == nil {
			rec.Ref, rec.Time, rec.Reason = name, time.Now(), ""
			err = r.Ledger.Add(ctx, rec)
		}
		if err != nil {
			return unknown(err)
		}
	}
	return nil
}
