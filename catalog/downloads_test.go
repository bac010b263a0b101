package catalog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// counts are the downloads of every module on this proxy.
type counts struct {
	n     int64
	asked int
	err   error
}

func (c *counts) Downloads(context.Context, modproxy.Address) (*modproxy.Downloads, error) {
	c.asked++
	return &modproxy.Downloads{Week: c.n, Total: c.n, Versions: map[string]int64{"1.0.0": c.n}, Answered: modproxy.Answered{Time: time.Now()}}, c.err
}

// Downloads that a registry does not count are counted here. The count itself is current; descriptions have a count at most a minute old,
// and are made again only if it has changed.
func TestDownloadsCountedHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&site{err: modproxy.ErrNotFound}).with("1.0.0", "1.1.0")
		c, here := newCatalog(s), &counts{n: 5}
		c.Counts = here
		want := func(n int64) (d *modproxy.Details) {
			t.Helper()
			d, err := c.Details(t.Context(), network.At("1.0.0"))
			if err != nil || d.Downloads != n {
				t.Errorf("details: %+v, %v, want %d", d, err, n)
			}
			h, err := c.History(t.Context(), network)
			if err != nil || h.Downloads != n || h.Versions[0].Downloads+h.Versions[1].Downloads != n {
				t.Errorf("history: %+v, %v, want %d", h, err, n)
			}
			page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 9})
			if err != nil || page.Modules[0].Downloads != n {
				t.Errorf("list: %+v, %v, want %d", page, err, n)
			}
			return d
		}
		was := want(5)
		here.n = 7
		if d, err := c.Downloads(t.Context(), network); err != nil || d.Week != 7 || d.Total != 7 {
			t.Error(d, err)
		}
		time.Sleep(30 * time.Second)
		if want(5) != was {
			t.Error("it is made again")
		}
		time.Sleep(31 * time.Second)
		was = want(7)
		time.Sleep(61 * time.Second)
		if want(7) != was {
			t.Error("it is made again though nothing has changed")
		}
		time.Sleep(61 * time.Second)
		here.err = modproxy.ErrUnavailable
		if d, err := c.Details(t.Context(), network.At("1.0.0")); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Error(d, err)
		}
		if d, err := c.Downloads(t.Context(), network); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Error(d, err)
		}
	})
}

func TestDownloadsCountedByTheRegistry(t *testing.T) {
	said := modproxy.Summary{Ref: network.At("1.0.0"), Source: "https://example.com", Published: seenAt, Downloads: 9}
	silent := said
	silent.Downloads = 0
	s := (&site{said: &modproxy.Details{Summary: said}, page: &modproxy.Page{Modules: []modproxy.Summary{said, silent}}}).with("1.0.0", "1.1.0")
	c, here := newCatalog(s), &counts{n: 5}
	c.Counts = here
	if d, err := c.Downloads(t.Context(), network); err != nil || d.Total != 3 {
		t.Error(d, err)
	}
	if d, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || !sameAs(d, s.said) || here.asked != 0 {
		t.Error(d, err, here.asked)
	}
	s.said = &modproxy.Details{Summary: silent}
	if d, err := c.Details(t.Context(), network.At("1.0.0")); err != nil || d.Downloads != 5 {
		t.Error(d, err)
	}
	page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 9})
	if err != nil || page.Modules[0].Downloads != 9 || page.Modules[1].Downloads != 5 {
		t.Error(page, err)
	}
}
