package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
)

// counted counts requests for versions.
type counted struct {
	lister
	asked atomic.Int32
}

func (c *counted) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	c.asked.Add(1)
	return c.lister.Versions(ctx, m)
}

// A list asks its registry about few of its modules, even if the client may not use many of the listed versions.
func TestListAsksForFew(t *testing.T) {
	known, registry := &site{page: &modproxy.Page{}}, &site{versions: map[modproxy.Address][]string{}}
	known.refused = map[modproxy.Ref]bool{}
	for i := range 100 {
		m := network
		m.Name = fmt.Sprint("m", i)
		known.page.Modules = append(known.page.Modules, modproxy.Summary{Ref: m.At("2.0.0"), Tag: "v2.0.0"})
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

// A version without a first-seen time is judged by the date in the list.
func TestListJudgesByItsDates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(seenAt.Add(24 * time.Hour)))
		s := &site{page: &modproxy.Page{Modules: []modproxy.Summary{
			{Ref: network.At("1.1.0"), Published: seenAt}, {Ref: network.At("3.0.0+x"), Published: seenAt.Add(-time.Hour)},
		}}}
		if _, err := newCatalog(s).List(t.Context(), modproxy.Query{Host: network.Host, Limit: 9}); err != nil || len(s.firstSeen) != 2 {
			t.Fatal(s.firstSeen, err)
		}
		for _, firstSeen := range s.firstSeen {
			_, seen := firstSeen.Of("1.1.0")
			version, want := "3.0.0+x", seenAt.Add(-time.Hour)
			if seen {
				version, want = "1.1.0", seenAt.Add(time.Hour)
			}
			if got := firstSeen.Since(version); !got.Equal(want) || !firstSeen.Module.Equal(seenAt) {
				t.Errorf("%s: since %v, want %v, module %v", version, got, want, firstSeen.Module)
			}
		}
	})
}

// A list has the latest known versions of its modules.
func TestListKnowsVersions(t *testing.T) {
	s := (&site{}).with("1.0.0", "1.1.0")
	s.page = &modproxy.Page{Modules: []modproxy.Summary{{Ref: network.At("9.9.9"), Tag: "v9.9.9", Description: "A network"}}}
	page, err := newCatalog(s).List(t.Context(), modproxy.Query{Host: network.Host, Limit: 2})
	if err != nil || ids(page) != "Acme/network@1.1.0" || page.Modules[0].Tag != "" || page.Modules[0].Description != "A network" {
		t.Error(page, err)
	}
}

// If a registry is unavailable, a list that selects no cached module is an error, not an empty list.
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

func ids(p *modproxy.Page) string {
	var all []string
	for _, m := range p.Modules {
		all = append(all, m.Namespace+"/"+m.Name+"@"+m.Version)
	}
	return strings.Join(all, " ")
}

func TestListOfWhatIsKept(t *testing.T) {
	s := &site{err: modproxy.ErrNotFound, versions: map[modproxy.Address][]string{}}
	for _, name := range []string{"a/vpc", "a/vpn", "b/vpc", "c/dns"} {
		namespace, name, _ := strings.Cut(name, "/")
		s.versions[modproxy.Address{Host: network.Host, Namespace: namespace, Name: name, System: "aws"}] = []string{"1.0.0", "1.1.0"}
	}
	other := modproxy.Address{Host: "other.example.com", Namespace: "a", Name: "vpc", System: "aws"}
	s.versions[other] = []string{"1.0.0"}
	hidden := modproxy.Address{Host: network.Host, Namespace: "a", Name: "vpn", System: "aws"}
	s.refused = map[modproxy.Ref]bool{hidden.At("1.0.0"): true, hidden.At("1.1.0"): true}
	c := newCatalog(s)
	for _, one := range []struct {
		want string
		modproxy.Query
	}{
		{"a/vpc@1.1.0 b/vpc@1.1.0 c/dns@1.1.0", modproxy.Query{Limit: 3}},
		{"a/vpc@1.1.0 b/vpc@1.1.0 and more", modproxy.Query{Limit: 2}},
		{"b/vpc@1.1.0 c/dns@1.1.0", modproxy.Query{Limit: 2, Offset: 1}},
		{"", modproxy.Query{Limit: 2, Offset: 3}},
		{"a/vpc@1.1.0", modproxy.Query{Limit: 9, Search: "VPC A/"}},
		{"a/vpc@1.1.0 b/vpc@1.1.0", modproxy.Query{Limit: 9, Search: "vpc aws"}},
		{"", modproxy.Query{Limit: 9, Verified: true}},
		{"", modproxy.Query{Limit: 9, System: "google"}},
		{"b/vpc@1.1.0", modproxy.Query{Limit: 9, Namespace: "B", Name: "VPC"}},
		{"c/dns@1.1.0", modproxy.Query{Limit: 9, Namespace: "c"}},
	} {
		q, want := one.Query, one.want
		q.Host = network.Host
		page, err := c.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		got := ids(page)
		if page.More {
			got += " and more"
		}
		if got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	if s.listed != 1 {
		t.Errorf("what is kept was listed %d times", s.listed)
	}
	if _, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 1, Offset: 10_001}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Error(err)
	}
}

// The list of cached modules is read in the background, and seldom.
func TestListIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := (&site{err: modproxy.ErrNotFound}).with("1.0.0")
		c := newCatalog(s)
		list := func() string {
			page, err := c.List(t.Context(), modproxy.Query{Host: network.Host, Limit: 9})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return ids(page)
		}
		first := list()
		m := network
		m.Name = "other"
		s.versions[m] = []string{"2.0.0"}
		time.Sleep(2 * time.Second)
		if got := list(); got != first || s.listed != 1 {
			t.Error(got, s.listed)
		}
		time.Sleep(2 * time.Second)
		both := first + " Acme/other@2.0.0"
		if got := list(); got != first && got != both || s.listed != 2 { // the reading may be faster
			t.Error(got, s.listed)
		}
		if got := list(); got != both || s.listed != 2 {
			t.Error(got, s.listed)
		}
	})
}

func TestListOfTheRegistry(t *testing.T) {
	m := network
	m.Name = "hidden"
	s := (&site{}).with("1.0.0", "1.1.0")
	s.versions[m] = []string{"1.0.0"}
	s.refused = map[modproxy.Ref]bool{network.At("1.1.0"): true, m.At("1.0.0"): true}
	s.page = &modproxy.Page{More: true, Modules: []modproxy.Summary{
		{Ref: m.At("1.0.0")}, {Ref: network.At("1.1.0"), Description: "A network", Tag: "v1.1.0", Downloads: 5},
	}}
	page, err := newCatalog(s).List(t.Context(), modproxy.Query{Host: network.Host, Limit: 2})
	if err != nil || ids(page) != "Acme/network@1.0.0" || !page.More {
		t.Fatal(page, err)
	}
	if got := page.Modules[0]; got.Description != "A network" || got.Downloads != 5 || got.Tag != "" || !got.Published.Equal(seenAt) {
		t.Errorf("%+v", got)
	}
}
