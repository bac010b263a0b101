package catalog

import (
	"context"
	"time"

	"github.com/modproxy/modproxy"
)

// Counts are how often clients downloaded modules here.
type Counts interface {
	// Downloads returns what was counted of a module that may never have been downloaded.
	Downloads(ctx context.Context, m modproxy.Address) (*modproxy.Downloads, error)
}

const (
	countFor  = time.Minute // how long a count is good enough to describe a module: another one makes documents anew
	maxCounts = 4 << 20     // bytes of them in memory
)

// Downloads counts the downloads of a module as Next does, or if that counts none, those that were counted here.
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

// total returns said, how often a registry says that a module was downloaded, or if that is never, the total of counted.
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

// counted returns what was counted of a module a minute ago at most.
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
