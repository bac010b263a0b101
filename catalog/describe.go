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
	readWithin    = 3 * time.Second // a client waits for a package to be read; afterwards it must retry
	describeIn    = time.Minute     // limit for reading one package
	partsFor      = time.Hour       // lifetime in memory; the reader stores the result, too
	maxDescribing = 64              // packages that are being read or wait for it
)

// partsKey identifies a description made from a package.
type partsKey struct {
	modproxy.Ref
	digest modproxy.Digest
	subdir string
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// made describes a version by its cached package. It returns otherwise if the package is not cached.
func (c *Catalog) made(ctx context.Context, v modproxy.Ref, otherwise error) (*modproxy.Details, error) {
	p, err := c.Packages.Stat(ctx, v)
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

// describe reads the description from a package.
func (c *Catalog) describe(ctx context.Context, k partsKey) (*modproxy.Details, error) {
	give, ok := c.turns.Try()
	if !ok {
		return nil, later("many other packages are being read")
	}
	defer give()
	p, err := c.Packages.Open(ctx, k.Ref)
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
	if errors.Is(err, modproxy.ErrInvalid) { // an unreadable package does not hide the other facts
		d.Root.Readme, err = clean.Prose(fmt.Sprintf("modproxy cannot read this module: %v", err)), nil
	}
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	c.parts.Add(k, d, partsFor, d.Size())
	return d, nil
}

// unavailable returns err as one of the errors of a [modproxy.Catalog].
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, modproxy.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

func later(why string) error {
	return &modproxy.RetryLater{After: time.Now().Add(time.Second), Err: errors.New(why)}
}
