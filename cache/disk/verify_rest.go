package disk

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"sync"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// copies looks for sidecars without a record.
func (v *verification) copies(ctx context.Context) error {
	for name, err := range v.sidecars {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if v.named[name] {
			continue
		}
		_, kept, err := v.readSidecar(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			v.foundBy(err, Damage{}, CopyDamaged,
				func() error { _, err := v.setAside(v.sidecarPath(name)); return err })
		case v.valueOf(packageKey(kept.Module, kept.Version)) == nil:
			unlock := v.lock(packageKey(kept.Module, kept.Version)) // it may just be on its way
			absent := v.valueOf(packageKey(kept.Module, kept.Version)) == nil
			unlock()
			if absent {
				v.found(Damage{Kind: RecordMissing, Module: kept.Module, Version: kept.Version, Digest: kept.Record.Digest,
					Text: "the record is beside the index, and not in it"},
					func() error { _, err := v.Package(kept.Module, kept.Version); return err })
			}
		}
	}
	return nil
}

// lists looks at the lists of versions.
func (v *verification) lists(ctx context.Context) error {
	for entry, err := range v.each(versionsBucket, nil) {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		var h about
		if _, err := unseal(entry.value, &h); err != nil || string(moduleKey(h.module())) != string(entry.key) {
			v.found(Damage{Kind: ListDamaged, Module: h.module(), Text: fmt.Sprintf("the list of versions under %q is damaged", entry.key)}, nil)
		}
	}
	return nil
}

// blobs counts the packages that no record is of.
func (v *verification) blobs(ctx context.Context) error {
	for blob, err := range v.All() {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if _, ok := v.seen[blob.Digest]; !ok {
			v.count(func(out *Verified) { out.Orphans.Packages++; out.Orphans.Bytes += blob.Size })
		}
	}
	return nil
}

// reading reads packages, several at a time.
type reading struct {
	v     *verification
	queue chan cache.Kept
	group sync.WaitGroup
}

func (v *verification) startReading(ctx context.Context) *reading {
	r := &reading{v: v, queue: make(chan cache.Kept)}
	if !v.Data {
		return r
	}
	for range runtime.GOMAXPROCS(0) {
		r.group.Go(func() {
			for kept := range r.queue {
				if ctx.Err() == nil {
					v.readPackage(kept)
				}
			}
		})
	}
	return r
}

func (r *reading) read(kept cache.Kept) {
	if r.v.Data {
		r.queue <- kept
	}
}

func (r *reading) end() {
	close(r.queue)
	r.group.Wait()
}

// readPackage reads the bytes that a record is about.
func (v *verification) readPackage(kept cache.Kept) {
	rec := kept.Record
	d := Damage{Module: kept.Module, Version: kept.Version, Digest: rec.Digest}
	f, err := v.Open(rec.Digest)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !damaged(err) && v.stands(kept) { // else it was evicted, or replaced
			v.foundBy(err, d, Unreadable, nil)
		}
		return
	}
	defer f.Close()
	is, err := f.(blob).Stat()
	if err == nil {
		err = v.compare(f, rec)
	}
	if err != nil && v.stands(kept) && v.still(rec.Digest, is) {
		v.foundBy(err, d, PackageDamaged, func() error { return v.retire(rec.Digest, is) })
	}
}

// compare reads the bytes of a package and holds them to its record.
func (v *verification) compare(blob io.Reader, rec cache.PackageRecord) error {
	hash := sha256.New()
	bytes := &counted{Reader: blob, v: v}
	all := io.TeeReader(bytes, hash)
	sum := rec.Sum
	var bad error
	if v.Sum != nil {
		sum, bad = v.Sum(all)
	}
	_, _ = io.Copy(io.Discard, all) // what Sum has left
	switch got := modproxy.Digest(hash.Sum(nil)); {
	case bytes.err != nil:
		return bytes.err
	case got != rec.Digest:
		return fmt.Errorf("%w: they are %s", cache.ErrDamaged, got)
	case bad != nil:
		return fmt.Errorf("%w: the content is no package: %w", cache.ErrDamaged, bad)
	case sum != rec.Sum:
		return fmt.Errorf("%w: the content is %s, and %s in its record", cache.ErrDamaged, sum, rec.Sum)
	}
	return nil
}

// counted counts what is read. An error is the last that it reads.
type counted struct {
	io.Reader
	v   *verification
	err error
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Reader.Read(p)
	c.v.count(func(out *Verified) { out.Read += int64(n) })
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
