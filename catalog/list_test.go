package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// counted counts the questions for versions.
type counted struct {
	lister
	asked atomic.Int32
}

func (c *counted) Versions(ctx context.Context, m modproxy.Module) (*modproxy.Versions, error) {
	c.asked.Add(1)
	return c.lister.Versions(ctx, m)
}

// A list asks its registry about few of its modules, however many the client may not use as they are listed.
func TestListAsksForFew(t *testing.T) {
	known, registry := &site{page: &modproxy.Page{}}, &site{versions: map[modproxy.Module][]string{}}
	known.refused = map[modproxy.ModuleVersion]bool{}
	for i := range 100 {
		m := network
		m.Name = fmt.Sprint("m", i)
		known.page.Modules = append(known.page.Modules, modproxy.Summary{ModuleVersion: m.At("2.0.0"), Tag: "v2.0.0"})
		known.refused[m.At("2.0.0")] = i > 0
		registry.versions[m] = []string{"1.0.0"}
	}
	c, asked := newCatalog(known), &counted{lister: lister{registry}}
	c.Registry = asked
	page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 100})
	if err != nil || ids(page) != "Acme/m0@2.0.0 Acme/m1@1.0.0 Acme/m2@1.0.0 Acme/m3@1.0.0 Acme/m4@1.0.0" || asked.asked.Load() != 4 {
		t.Error(ids(page), err, asked.asked.Load())
	}
	asked.asked = atomic.Int32{}
	page, err = c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 100, Offset: 100})
	if err != nil || ids(page) != "Acme/m0@2.0.0" || asked.asked.Load() != 0 {
		t.Error("behind the first page:", ids(page), err, asked.asked.Load())
	}
	known.refused, asked.asked = nil, atomic.Int32{}
	page, err = c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 100})
	if err != nil || len(page.Modules) != 100 || page.Modules[99].Tag != "v2.0.0" || asked.asked.Load() != 0 {
		t.Error(len(page.Modules), err, asked.asked.Load())
	}
}

// What was not seen is judged by the date that its list gives.
func TestListJudgesByItsDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(met.Add(24 * time.Hour)))
		s := &site{page: &modproxy.Page{Modules: []modproxy.Summary{
			{ModuleVersion: network.At("1.1.0"), Published: met}, {ModuleVersion: network.At("3.0.0+x"), Published: met.Add(-time.Hour)},
		}}}
		if _, err := newCatalog(s).List(t.Context(), modproxy.Query{Host: network.Host, Limit: 9}); err != nil || len(s.sights) != 2 {
			t.Fatal(s.sights, err)
		}
		for _, sight := range s.sights {
			_, seen := sight.Of("1.1.0")
			version, want := "3.0.0", met.Add(-time.Hour)
			if seen {
				version, want = "1.1.0", met.Add(time.Hour)
			}
			if got := sight.Since(version); !got.Equal(want) || !sight.Met.Equal(met) {
				t.Errorf("%s: since %v, want %v, met %v", version, got, want, sight.Met)
			}
		}
	})
}

// A list has the versions that its modules have, as far as that is known here.
func TestListKnowsVersions(t *testing.T) {
	s := (&site{}).with("1.0.0", "1.1.0")
	s.page = &modproxy.Page{Modules: []modproxy.Summary{{ModuleVersion: network.At("9.9.9"), Tag: "v9.9.9", Description: "A network"}}}
	page, err := newCatalog(s).List(t.Context(), modproxy.Query{Host: network.Host, Limit: 2})
	if err != nil || ids(page) != "Acme/network@1.1.0" || page.Modules[0].Tag != "" || page.Modules[0].Description != "A network" {
		t.Error(page, err)
	}
}

// A list without a module is not made of what is kept because its registry is in trouble.
func TestListOfARegistryInTrouble(t *testing.T) {
	for _, one := range []struct{ err, want error }{
		{modproxy.ErrUnavailable, modproxy.ErrUnavailable}, {modproxy.ErrInvalid, modproxy.ErrInvalid}, {modproxy.ErrNotFound, nil}, {modproxy.ErrDenied, nil},
	} {
		c := newCatalog((&site{err: one.err}).with("1.0.0"))
		page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Search: "nothing", Limit: 2})
		if !errors.Is(err, one.want) || err == nil && len(page.Modules) != 0 {
			t.Errorf("%v: %v, %v", one.err, page, err)
		}
		if page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Search: "network", Limit: 2}); err != nil || len(page.Modules) != 1 {
			t.Errorf("%v: %v, %v", one.err, page, err)
		}
	}
}
