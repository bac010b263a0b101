package cache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/internal/spool"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

var (
	toy    = modproxy.NewProvider("registry.example.com", "acme", "toy")
	linux  = modproxy.Platform{OS: "linux", Arch: "amd64"}
	darwin = modproxy.Platform{OS: "darwin", Arch: "arm64"}
)

// signer is the key that has signed all releases.
const signer modproxy.Keys = "0123456789ABCDEF0123456789ABCDEF01234567"

// providers is a registry of providers. It records what it brings, as package ledger does. Zip archives come a piece a second.
type providers struct {
	t      *testing.T
	ledger *ledgertest.Memory
	dir    string // for what comes

	mu       sync.Mutex
	count    map[string]int // requests, by their subject
	document string
	content  []byte
	pieces   int           // that a zip archive comes in
	missing  error         // instead of the last piece
	wrong    error         // when all has come
	flip     bool          // a bit of what has come, on the disk, when all has
	release  time.Duration // what a release takes
	lacks    bool          // releases lack darwin
}

func (n *providers) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *providers) asked(what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.count[what]
}

func (n *providers) ask(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count[what]++
}

func (n *providers) Versions(context.Context, modproxy.Address) (*modproxy.Versions, error) {
	n.ask("versions")
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.document == "" {
		return nil, modproxy.ErrUnavailable
	}
	v, err := modproxy.ParseProviderVersions([]byte(n.document))
	if err == nil {
		v.Time = time.Now()
	}
	return v, err
}

func (n *providers) Location(context.Context, modproxy.Ref) (modproxy.Location, error) {
	n.ask("location")
	return modproxy.Location{}, errors.New("the location of a provider")
}

func (n *providers) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	isZip := v.IsArchive()
	if !isZip {
		n.ask("release")
		n.mu.Lock()
		takes, lacks := n.release, n.lacks
		n.mu.Unlock()
		time.Sleep(takes)
		content := []byte("release " + v.Version)
		zips := map[modproxy.Platform]modproxy.Digest{linux: digestOf(n.content), darwin: digestOf(n.content)}
		if lacks {
			content = append(content, "lacks"...)
			delete(zips, darwin)
		}
		p := &modproxy.Package{Body: modproxy.NewBody(body{bytes.NewReader(content)}, digestOf(content)), Digest: digestOf(content), Sum: sumOf(content), Size: int64(len(content))}
		p.Facts.Zips, p.Facts.Keys = modproxy.NewZips(zips), signer
		return p, n.record(ctx, v, p.Sum, p.Facts)
	}
	n.ask("zip")
	file, err := spool.New(n.dir)
	if err != nil {
		return nil, err
	}
	a := &arriving{n: n, v: v, file: file, done: make(chan struct{})}
	go a.receive(ctx)
	p := &modproxy.Package{Digest: digestOf(n.content), Sum: sumOf(n.content), Size: int64(len(n.content)), Partial: a}
	if !modproxy.AllowsPartial(ctx) {
		n.t.Error("the cache does not take what comes")
	}
	from, err := file.Open(ctx)
	p.Body = closes{from, file, p.Digest}
	return p, err
}

func (n *providers) record(ctx context.Context, v modproxy.Ref, sum modproxy.Sum, facts modproxy.ProviderFacts) error {
	rec := modproxy.Record{Ref: v, Sum: sum, Subdir: ".", Time: time.Now(), ProviderFacts: facts}
	if is, err := n.ledger.Lookup(ctx, v); err == nil {
		switch {
		case is.Sum == sum:
			return nil
		case !facts.Zips.Extends(is.ProviderFacts.Zips):
			return modproxy.ErrChanged
		}
		rec.Reason = "it has more"
		return n.ledger.Accept(ctx, rec)
	}
	return n.ledger.Add(ctx, rec)
}

// closes closes the file, too.
type closes struct {
	*spool.Reader
	file   *spool.File
	digest modproxy.Digest
}

func (c closes) Verify(ctx context.Context) error {
	return modproxy.NewBody(c.Reader, c.digest).Verify(ctx)
}

func (c closes) Close() error { return errors.Join(c.Reader.Close(), c.file.Close()) }

type arriving struct {
	n    *providers
	v    modproxy.Ref
	file *spool.File
	done chan struct{}
	err  error
}

// receive writes a piece a second.
func (a *arriving) receive(ctx context.Context) {
	defer close(a.done)
	a.n.mu.Lock()
	content, pieces, missing, wrong, flip := a.n.content, a.n.pieces, a.n.missing, a.n.wrong, a.n.flip
	a.n.mu.Unlock()
	for i := range pieces {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			a.err = ctx.Err()
		}
		if i == pieces-1 && missing != nil {
			a.err = missing
		}
		if a.err != nil {
			a.file.End(a.err)
			return
		}
		if _, err := a.file.Write(content[len(content)*i/pieces : len(content)*(i+1)/pieces]); err != nil {
			a.n.t.Error(err)
		}
	}
	if flip {
		a.err = flipIn(a.n.dir)
	}
	a.file.End(nil)
	a.err = errors.Join(a.err, wrong)
}

// flipIn flips a bit in the one file in a directory.
func flipIn(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 1 {
		return fmt.Errorf("%q, %v", names, err)
	}
	f, err := os.OpenFile(names[0], os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, 5000); err != nil {
		return err
	}
	b[0] ^= 8
	_, err = f.WriteAt(b, 5000)
	return err
}

func (a *arriving) Complete(ctx context.Context) (facts modproxy.ProviderFacts, err error) {
	select {
	case <-a.done:
	case <-ctx.Done():
		return facts, ctx.Err()
	}
	if a.err != nil {
		return facts, a.err
	}
	facts.Hashes = unpacked
	return facts, a.n.record(ctx, a.v, sumOf(a.n.content), facts)
}

// unpacked is what zip archives are said to have in them.
var unpacked = modproxy.NewHashes(sumOf([]byte("unpacked")), sumOf([]byte("zipped")))

func (a *arriving) Open(ctx context.Context) (modproxy.Body, error) {
	r, err := a.file.Open(ctx)
	return modproxy.NewBody(r, digestOf(a.n.content)), err
}

// providerFixture is a registry of what providers brings, over a directory or memory.
type providerFixture struct {
	*cache.Registry
	next    *providers
	storage storetest.Handle
	memory  int64 // see [store.Config]; for the next restart
}

func newProviders(t *testing.T, size int) *providerFixture {
	f := &providerFixture{next: &providers{
		t: t, ledger: ledgertest.NewMemory(), dir: t.TempDir(), count: map[string]int{}, pieces: 20,
		document: `{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[` +
			`{"os":"linux","arch":"amd64"},{"os":"darwin","arch":"arm64"}]},{"version":"1.1.0","protocols":["6.0"]}],"warnings":["old"]}`,
	}}
	f.next.content = make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(f.next.content)
	return f
}

func (f *providerFixture) onDisk(t *testing.T) (dir string) {
	dir = t.TempDir()
	d, err := disk.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	f.storage = storetest.Handle{Records: d.Records(), Blobs: d.Blobs(), Quarantine: d}
	f.restart(t)
	return dir
}

func (f *providerFixture) inMemory(t *testing.T) string {
	f.storage = (&storetest.Memory{}).Handle()
	f.restart(t)
	return ""
}

func (f *providerFixture) restart(t *testing.T) {
	if f.Registry != nil {
		mustClose(t, f.Registry)
	}
	r := newRegistry(f.storage, f.next.ledger, nil, f.memory)
	r.Next = f.next
	f.Registry = r
	t.Cleanup(func() { mustClose(t, r) })
}

// read reads the zip archive of a version for linux as a client does that may follow it.
func (f *providerFixture) read(ctx context.Context, version string) ([]byte, error) {
	p, err := f.Package(modproxy.AllowPartial(ctx), toy.At(version).ForPlatform(linux))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return io.ReadAll(p)
}

func (f *providerFixture) fetch(t *testing.T, version string, platforms ...modproxy.Platform) {
	t.Helper()
	for _, v := range append([]modproxy.Ref{toy.At(version)}, ofPlatforms(version, platforms)...) {
		p, err := f.Package(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, p); err != nil || p.Partial != nil || p.Sum == "" {
			t.Errorf("%v: %v; Sum %q", v, err, p.Sum)
		}
		p.Close()
	}
}

func ofPlatforms(version string, platforms []modproxy.Platform) (list []modproxy.Ref) {
	for _, p := range platforms {
		list = append(list, toy.At(version).ForPlatform(p))
	}
	return list
}

// listed is what clients see of the versions.
func (f *providerFixture) listed(t *testing.T) string {
	t.Helper()
	v, err := f.Versions(t.Context(), toy)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, l := range v.List {
		r := l.Release()
		list = append(list, fmt.Sprintf("%s%v%v", r.Version, r.Protocols, r.Platforms))
	}
	if !strings.HasPrefix(string(v.Document), `{"versions":[`) {
		t.Errorf("%s", v.Document)
	}
	return strings.Join(list, " ")
}

var _ store.File = (*spool.Reader)(nil)

// empty fails the test when something is in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left over: %v, %v", left, err)
	}
}
