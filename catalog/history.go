package catalog

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/modproxy/modproxy"
)

// historyKey identifies a completed history: the history of a registry, or nil, and the versions that a client may use.
type historyKey struct {
	of       *modproxy.History
	module   modproxy.Address
	versions string // the entity tag
}

// History returns the publication dates of the versions that Registry lists, by the answer of Next. In place of a missing date it has the
// first-seen time, and in place of a missing count the number of downloads through this proxy. The result does not show which is which.
//
// Errors: those of Registry, and of the records.
func (c *Catalog) History(ctx context.Context, m modproxy.Address) (*modproxy.History, error) {
	list, err := c.Registry.Versions(ctx, m)
	if err != nil {
		return nil, err
	}
	var said *modproxy.History
	if c.Next != nil {
		said, err = c.Next.History(ctx, m)
		switch {
		case ctx.Err() != nil:
			return nil, modproxy.Wrap("history", m.At(""), err)
		case err != nil:
			said = nil
		}
	}
	k := historyKey{said, m, list.ETag}
	if known, ok := c.histories.Get(k); ok {
		return known, nil
	}
	told := said
	if told == nil {
		told = c.oneByOne(ctx, m, list)
	}
	h, err := c.history(ctx, m, list, told)
	if err != nil {
		return nil, modproxy.Wrap("history", m.At(""), err)
	}
	size := h.Size()
	if said != nil {
		size += said.Size() // the key keeps it in memory
	}
	c.histories.Add(k, h, completeFor, size)
	return h, nil
}

// maxOneByOne is the number of versions that oneByOne describes.
const maxOneByOne = 16

// oneByOne makes a history from Next's descriptions of the newest versions in list, as far as they arrive soon. It returns nil if Next
// does not describe the latest version. Histories and descriptions then agree about a version.
func (c *Catalog) oneByOne(ctx context.Context, m modproxy.Address, list *modproxy.Versions) *modproxy.History {
	latest, ok := list.Latest()
	if c.Next == nil || !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	d, err := c.Next.Details(ctx, m.At(latest.String()))
	if err != nil {
		return nil
	}
	h := &modproxy.History{
		Module: m, Owner: d.Owner, Logo: d.Logo, Source: d.Source, Downloads: d.Downloads, Verified: d.Verified, Alias: d.Alias, Tier: d.Tier,
		Answered: d.Answered,
	}
	if m.IsProvider() {
		h.Description = d.Description
	}
	newest := slices.SortedFunc(func(yield func(modproxy.Version) bool) {
		for _, l := range list.List {
			if !yield(l.Version) {
				return
			}
		}
	}, func(a, b modproxy.Version) int { return b.Compare(a) })
	h.Versions = make([]modproxy.DatedVersion, min(len(newest), maxOneByOne))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range h.Versions {
		group.Go(func() error {
			if d, err := c.Next.Details(ctx, m.At(newest[i].String())); err == nil {
				h.Versions[i] = modproxy.DatedVersion{Version: d.Version, Published: d.Published, Tag: d.Tag, Downloads: d.Downloads}
			}
			return nil
		})
	}
	_ = group.Wait() // the functions return no error
	return h
}

// history completes said for the versions in list. said may be nil.
func (c *Catalog) history(
	ctx context.Context, m modproxy.Address, list *modproxy.Versions, said *modproxy.History,
) (*modproxy.History, error) {
	firstSeen, err := c.FirstSeen.Recorded(ctx, m)
	if err != nil {
		return nil, err
	}
	h := modproxy.History{Module: m, Answered: modproxy.Answered{Time: list.Time, Hit: true}}
	if said != nil {
		h = *said
	}
	counted := &modproxy.Downloads{}
	if h.Downloads == 0 {
		if counted, err = c.counted(ctx, m); err != nil {
			return nil, err
		}
		h.Downloads = counted.Total
	}
	of := map[string]modproxy.DatedVersion{}
	for _, v := range h.Versions {
		of[v.Version] = v
	}
	h.Versions = make([]modproxy.DatedVersion, 0, len(list.List))
	for _, l := range list.List {
		v := of[l.Version.String()]
		v.Version = l.Version.String()
		if v.Published.IsZero() {
			v.Published = listedSince(firstSeen, v.Version, list.Time)
		}
		v.Downloads = cmp.Or(v.Downloads, counted.Versions[v.Version])
		h.Versions = append(h.Versions, v)
	}
	if latest, ok := list.Latest(); ok && h.Source == "" {
		if _, h.Source, err = c.seen(ctx, m.At(latest.String()), list); err != nil {
			return nil, err
		}
	}
	return &h, nil
}
