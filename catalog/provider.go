package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modproxy/modproxy"
)

// provider describes a version of a provider as Next does. If Next does not describe the provider, the description has only the facts of
// the registry protocol: that the version exists, and since when.
func (c *Catalog) provider(ctx context.Context, v modproxy.Ref) (*modproxy.Details, error) {
	var err error = modproxy.ErrNotFound
	if c.Next != nil {
		var d *modproxy.Details
		if d, err = c.Next.Details(ctx, v); err == nil {
			return d, nil
		}
	}
	if !errors.Is(err, modproxy.ErrNotFound) {
		return nil, err
	}
	k := partsKey{Ref: v}
	if d, ok := c.parts.Get(k); ok {
		return d, nil
	}
	d := &modproxy.Details{
		Summary:  modproxy.Summary{Ref: v},
		Answered: modproxy.Answered{Time: time.Now(), Hit: true},
	}
	c.parts.Add(k, d, partsFor, d.Size())
	return d, nil
}

// Text returns the text of a document of a listed version, as Next has it.
//
// Errors: those of Details; [modproxy.ErrNotFound] if v has no document with that ID.
func (c *Catalog) Text(ctx context.Context, v modproxy.Ref, id string) (*modproxy.Text, error) {
	d, err := c.Details(ctx, v)
	if err != nil {
		return nil, err
	}
	if c.Next == nil || !slices.ContainsFunc(d.Docs, func(doc modproxy.Doc) bool { return doc.ID == id }) {
		return nil, modproxy.Wrap("document", v, fmt.Errorf("%w: the version has no document %.80q", modproxy.ErrNotFound, id))
	}
	text, err := c.Next.Text(ctx, v, id)
	return text, modproxy.Wrap("document", v, err)
}
