package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/history"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/pack"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

const (
	versionsOfModule = 10
	scaleBlobs       = 100_000 // maximum number of stored blobs; further versions share content
	scaleFile        = 2 << 10 // bytes of a package, in base64
	scaleWorkers     = 256     // writes that wait for the disk are combined
)

// shelf is a data directory with many versions, in the form that modproxy writes.
type shelf struct {
	dir      string
	versions int
	bytes    int64 // of the packages
}

// scaleModule returns the address of a module of a shelf.
func scaleModule(i int) modproxy.Address {
	return modproxy.Address{Host: registryHost, Namespace: fmt.Sprintf("team-%d", i%100), Name: fmt.Sprintf("network-%d", i), System: "aws"}
}

// makeShelf fills a data directory with n versions: packages, their records, those of the ledger, the versions documents and the
// first-seen times. It is made on a fast file system, and then copied to the disk.
func (b *bench) makeShelf(ctx context.Context, n int) (*shelf, error) {
	made, err := os.MkdirTemp(b.scratch, "shelf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(made)
	s := &shelf{dir: filepath.Join(b.data, filepath.Base(made)), versions: n}
	if err := s.fill(ctx, filepath.Join(made, "data")); err != nil {
		return nil, err
	}
	return s, exec.CommandContext(ctx, "cp", "-a", made, s.dir).Run()
}

func (s *shelf) fill(ctx context.Context, dir string) (err error) {
	index, err := disk.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	book, err := ledger.Open(filepath.Join(dir, "ledger"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	kept := store.New(store.Config{Records: index.Records(), Blobs: index.Blobs(), Quarantine: index, Memory: 1})
	defer func() { err = errors.Join(err, kept.Close(context.WithoutCancel(ctx))) }()
	f := &filler{
		shelf: s, ledger: book, cache: cache.New(cache.Config{Store: kept, Ledger: book}), firstSeen: history.NewFirstSeen(history.FirstSeenConfig{Records: kept.Records}),
	}
	var next atomic.Int64
	errs := make([]error, scaleWorkers)
	var all sync.WaitGroup
	for w := range errs {
		all.Go(func() {
			for errs[w] == nil && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i*versionsOfModule >= s.versions {
					return
				}
				errs[w] = f.module(ctx, i)
			}
		})
	}
	all.Wait()
	return errors.Join(append(errs, ctx.Err())...)
}

// filler fills a shelf.
type filler struct {
	*shelf
	ledger    *ledger.Log
	cache     *cache.Registry
	firstSeen *history.FirstSeen
	writers   sync.Pool
	known     [scaleBlobs]atomic.Pointer[modproxy.Package]
}

// module stores a module and its versions.
func (f *filler) module(ctx context.Context, i int) error {
	m := scaleModule(i)
	var listed []modproxy.Listed
	seen := map[string]modproxy.VersionDates{}
	for k := range min(versionsOfModule, f.versions-i*versionsOfModule) {
		version, err := modproxy.ParseVersion(fmt.Sprintf("1.%d.0", k))
		if err != nil {
			return err
		}
		if err := f.version(ctx, m.At(version.String()), i*versionsOfModule+k); err != nil {
			return err
		}
		entry, _ := json.Marshal(map[string]string{"version": version.String()}) // strings always marshal
		listed = append(listed, modproxy.Listed{Version: version, Spelling: version.String(), Entry: entry})
		seen[version.String()] = modproxy.VersionDates{Seen: time.Now()}
	}
	return errors.Join(f.cache.Learn(ctx, m, listed), f.firstSeen.Take(ctx, m, seen))
}

// version stores a version by its number.
func (f *filler) version(ctx context.Context, v modproxy.Ref, number int) error {
	p, err := f.content(number % scaleBlobs)
	if err != nil {
		return err
	}
	if number < scaleBlobs { // otherwise it shares the bytes of another version
		atomic.AddInt64(&f.bytes, p.Size)
	}
	source := modproxy.Source{URL: "https://git.example.com/" + v.Namespace + "/" + v.Name + ".git", Commit: fmt.Sprintf("%040x", number)}
	if err := f.ledger.Add(ctx, modproxy.Record{Ref: v, Sum: p.Sum, Subdir: ".", Time: p.Time, Source: source}); err != nil {
		return err
	}
	if err := f.cache.Keep(ctx, v, p); err != nil {
		return err
	}
	p.Body = nil
	f.known[number%scaleBlobs].CompareAndSwap(nil, p)
	return nil
}

// content returns the package of a number. It is not compressed, because that would take most of the time.
func (f *filler) content(number int) (*modproxy.Package, error) {
	if known := f.known[number].Load(); known != nil { // its bytes are stored and not read
		p := *known
		return &p, nil
	}
	text := fmt.Sprintf("# %d\noutput \"content\" {\n  value = %q\n}\n", number,
		base64.StdEncoding.EncodeToString([]byte(noise(rand.New(rand.NewPCG(uint64(number), 1)), scaleFile))))
	var out bytes.Buffer
	gz, _ := f.writers.Get().(*gzip.Writer)
	if gz == nil {
		gz, _ = gzip.NewWriterLevel(nil, gzip.NoCompression) // the level is valid
	}
	defer f.writers.Put(gz)
	gz.Reset(&out)
	files := tar.NewWriter(gz)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: "main.tf", Size: int64(len(text)), Mode: 0o644, ModTime: time.Unix(0, 0)}
	err := files.WriteHeader(header)
	if err == nil {
		_, err = io.WriteString(files, text)
	}
	if err = errors.Join(err, files.Close(), gz.Close()); err != nil {
		return nil, err
	}
	sum, err := pack.Verify(bytes.NewReader(out.Bytes()), pack.Limits{})
	digest := modproxy.Digest(sha256.Sum256(out.Bytes()))
	body := struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(out.Bytes()), io.NopCloser(nil)}
	return &modproxy.Package{
		Body: modproxy.NewBody(body, digest), Digest: digest, Sum: sum, Size: int64(out.Len()), Time: time.Now(),
	}, err
}
