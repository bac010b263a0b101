package cache

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/flight"
	"github.com/modproxy/modproxy/store"
)

// arrival is a package that is being downloaded.
type arrival struct {
	store *store.Store
	*flight.Call[*StoredPackage]
}

// open opens the package for a request in ctx. It calls leave when the package is closed, and on error.
func (a *arrival) open(ctx context.Context, leave func()) (*modproxy.Package, error) {
	body, err := a.Open(ctx)
	if err != nil {
		leave()
		return nil, err
	}
	p := a.Partial().opened(&awaited{body, leave})
	p.Partial = a
	return p, nil
}

// awaited is the body of a package whose download its caller waits for. Closing the body ends the wait.
type awaited struct {
	modproxy.Body
	leave func()
}

func (a *awaited) Close() error {
	a.leave()
	return a.Body.Close()
}

// Complete implements [modproxy.Partial]. It returns after the package was stored.
func (a *arrival) Complete(ctx context.Context) (modproxy.ProviderFacts, error) {
	select {
	case <-a.Done():
		p, err := a.Result()
		if err != nil {
			return modproxy.ProviderFacts{}, err
		}
		return p.Facts, nil
	case <-ctx.Done():
		return modproxy.ProviderFacts{}, ctx.Err()
	}
}

// Open implements [modproxy.Partial].
func (a *arrival) Open(ctx context.Context) (modproxy.Body, error) {
	from, err := a.Partial().arrival.Open(ctx)
	if err != nil { // the download may have ended a moment ago
		if _, err := a.Complete(ctx); err != nil {
			return nil, err
		}
		p, err := a.Result()
		if err != nil {
			return nil, err
		}
		return a.store.Open(ctx, p.Digest, p.Size)
	}
	return &follower{ctx: ctx, arrival: a, from: from, size: a.Partial().Size, hash: sha256.New()}, nil
}

// heldBack is the number of bytes at the end of a package that are returned only after the package was stored.
const heldBack = 64 << 10

// follower reads a package while it is being downloaded. From start to end, it returns the bytes that were received. It
// returns the last bytes when the package is cached and all bytes have its digest. It reads a part of the package from the
// cache: a Read at another offset, or Verify, waits until the package is cached and verifies it there.
type follower struct {
	ctx     context.Context
	arrival *arrival
	from    modproxy.Body
	size    int64

	offset int64         // of the next byte for the caller
	stored modproxy.Body // of the cached package, verified; nil while the download is read
	given  int64         // bytes that were returned from the start
	hash   hash.Hash     // of the returned bytes and of end
	end    []byte        // verified last bytes that were not returned yet
	err    error         // every Read returns it
}

// Read waits for bytes that it may return.
func (f *follower) Read(p []byte) (int, error) {
	switch {
	case f.err != nil || len(p) == 0:
		return 0, f.err
	case f.stored != nil || f.offset != f.given:
		return f.readStored(p)
	case f.offset == f.size:
		return 0, io.EOF
	}
	n, before := 0, f.size-heldBack-f.offset
	if before > 0 {
		n, f.err = f.from.Read(p[:min(int64(len(p)), before)])
		f.hash.Write(p[:n])
		if f.err != nil {
			f.err = f.ended(f.err)
		}
	} else {
		if f.end == nil {
			f.err = f.finish()
		}
		n = copy(p, f.end)
		f.end = f.end[n:]
	}
	f.offset += int64(n)
	f.given = f.offset
	if n > 0 {
		return n, nil
	}
	return 0, f.err
}

// finish waits until the package is stored, and reads the end.
func (f *follower) finish() error {
	if _, err := f.arrival.Complete(f.ctx); err != nil {
		return err
	}
	end := make([]byte, f.size-f.offset)
	if _, err := io.ReadFull(f.from, end); err != nil {
		return f.ended(err)
	}
	f.hash.Write(end)
	if is := modproxy.Digest(f.hash.Sum(nil)); is != f.arrival.Partial().Digest {
		return fmt.Errorf("%w: the received bytes have the digest %v, want %v", modproxy.ErrUnavailable, is, f.arrival.Partial().Digest)
	}
	f.end = end
	return nil
}

// ended returns the reason why reading failed with err: the error of the download, if it has one.
func (f *follower) ended(err error) error {
	if _, why := f.arrival.Complete(f.ctx); why != nil {
		return why
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

// Verify implements [modproxy.Body]. It waits until the package is cached. Reads then return its cached bytes, or the error of
// Verify.
func (f *follower) Verify(ctx context.Context) error {
	if f.err == nil {
		f.err = f.verifyStored(ctx)
	}
	return f.err
}

func (f *follower) verifyStored(ctx context.Context) error {
	if f.stored == nil {
		if _, err := f.arrival.Complete(ctx); err != nil {
			return err
		}
		stored, err := f.arrival.Result()
		if err != nil {
			return err
		}
		if stored.Digest != f.arrival.Partial().Digest {
			return fmt.Errorf("%w: other bytes were cached for it meanwhile", modproxy.ErrUnavailable)
		}
		if f.stored, err = f.arrival.store.Open(f.ctx, stored.Digest, stored.Size); err != nil {
			f.stored = nil
			return err
		}
	}
	return f.stored.Verify(ctx)
}

// readStored reads the cached package. It waits until the package is cached.
func (f *follower) readStored(p []byte) (int, error) {
	if f.stored == nil {
		if err := f.Verify(f.ctx); err != nil {
			return 0, err
		}
	}
	if _, err := f.stored.Seek(f.offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := f.stored.Read(p)
	f.offset += int64(n)
	return n, err
}

// Seek does not wait.
func (f *follower) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.offset
	case io.SeekEnd:
		offset += f.size
	default:
		return 0, fmt.Errorf("%w: seek: whence %d", modproxy.ErrInvalid, whence)
	}
	if offset < 0 {
		return 0, fmt.Errorf("%w: seek to %d", modproxy.ErrInvalid, offset)
	}
	f.offset = offset
	return offset, nil
}

// Close has no effect the second time.
func (f *follower) Close() error {
	err := f.from.Close()
	if f.stored != nil {
		err = f.stored.Close()
	}
	return err
}
