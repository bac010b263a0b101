package catalog

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// Counts counts how often clients downloaded modules here.
type Counts interface {
	// Downloads returns the counts of a module, which may be zero.
	Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error)
}

const (
	countFor  = time.Minute // lifetime of a count in descriptions; a new count makes a new document
	maxCounts = 4 << 20     // bytes of counts in memory
)

// Downloads returns the counts of Next. If these are zero, as for registries that do not count, it returns the counts of this proxy.
//
// Errors: those of Registry, and of Counts.
func (c *Catalog) Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	list, err := c.Registry.Versions(ctx, m)
	if err != nil {
		return nil, err
	}
	if c.Next != nil {
		d, err := c.Next.Downloads(ctx, m)
		if err == nil && d.Total > 0 || ctx.Err() != nil {
			return d, modproxy.Wrap("downloads", m.At(""), err)
		}
	}
	if c.Counts == nil {
		return &modproxy.Downloads{Answered: modproxy.Answered{Time: list.Time, Hit: true}}, nil
	}
	d, err := c.Counts.Downloads(ctx, m)
	return d, modproxy.Wrap("downloads", m.At(""), err)
}

// total returns said, the total from a registry, or if that is zero, the total of counted.
func (c *Catalog) total(ctx context.Context, m modproxy.Address, said int64) (int64, error) {
	if said > 0 {
		return said, nil
	}
	d, err := c.counted(ctx, m)
	if err != nil {
		return 0, err
	}
	return d.Total, nil
}

// counted returns the counts of a module on this proxy, at most a minute old.
func (c *Catalog) counted(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error) {
	if c.Counts == nil {
		return &modproxy.Downloads{}, nil
	}
	if known, ok := c.counts.Get(m); ok {
		return known, nil
	}
	d, err := c.Counts.Downloads(ctx, m)
	if err != nil {
		return nil, modproxy.Wrap("downloads", m.At(""), err)
	}
	c.counts.Add(m, d, countFor, 1<<10+64*int64(len(d.Versions)))
	return d, nil
}
