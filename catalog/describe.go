package catalog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

const (
	readWithin    = 3 * time.Second // how long a client waits for a package to be read; then it has to try again
	describeIn    = time.Minute     // how long one may take to be read
	partsFor      = time.Hour       // how long it is remembered what one says; the reader keeps that, too
	maxDescribing = 64              // packages that are read, or wait for it
)

// partsKey names what a package says of itself.
type partsKey struct {
	modproxy.Ref
	digest modproxy.Digest
	subdir string
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// made describes a version by its kept package. otherwise is the error if that is not kept.
func (c *Catalog) made(ctx context.Context, v modproxy.Ref, otherwise error) (*modproxy.Details, error) {
	p, err := c.Packages.Held(ctx, v)
	switch {
	case notExist(err):
		return nil, otherwise
	case err != nil:
		return nil, unavailable(ctx, err)
	}
	k := partsKey{v, p.Digest, p.Subdir}
	if d, ok := c.parts.Get(k); ok {
		return d, nil
	}
	call, err := c.describing.Join(ctx, v, func(ctx context.Context) (*modproxy.Details, error) { return c.describe(ctx, k) })
	if err != nil {
		return nil, err
	}
	select {
	case <-call.Done():
		return call.Result()
	case <-time.After(readWithin):
		return nil, later("its package is being read")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// describe reads a package.
func (c *Catalog) describe(ctx context.Context, k partsKey) (*modproxy.Details, error) {
	give, ok := c.turns.Try()
	if !ok {
		return nil, later("many other packages are being read")
	}
	defer give()
	p, err := c.Packages.OpenHeld(ctx, k.Ref)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	defer p.Close()
	d := &modproxy.Details{
		Summary:  modproxy.Summary{Ref: k.Ref},
		Root:     modproxy.Part{Name: k.Name},
		Answered: modproxy.Answered{Time: time.Now(), Hit: true},
	}
	err = c.Reader.Describe(ctx, p, d)
	if errors.Is(err, modproxy.ErrInvalid) { // what is known besides is told all the same
		d.Root.Readme, err = clean.Prose(fmt.Sprintf("modproxy cannot read this module: %v", err)), nil
	}
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	c.parts.Add(k, d, partsFor, d.Size())
	return d, nil
}

// unavailable returns err as an error of a [modproxy.Catalog].
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, modproxy.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

func later(why string) error {
	return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errors.New(why)}
}
