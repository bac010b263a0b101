package catalog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/catalog"
)

// forSystem returns the sibling of network for another system.
func forSystem(system string) modproxy.Address {
	m := network
	m.System = system
	return m
}

// guarded hides azurerm from clients with a group, and counts its calls.
type guarded struct {
	*site
	asked int
}

func (s *guarded) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	s.asked++
	switch {
	case m.System == "azurerm" && len(modproxy.ClientOf(ctx).Groups) > 0:
		return nil, modproxy.ErrDenied
	case s.versions[m] == nil:
		return nil, modproxy.ErrNotFound
	}
	return lister{s.site}.Versions(ctx, m)
}

// siblings returns the other systems of network in the answer of c.
func siblings(t *testing.T, c *catalog.Catalog, groups ...string) string {
	t.Helper()
	ctx := modproxy.WithClient(t.Context(), modproxy.Client{Groups: groups})
	d, err := c.Details(ctx, network.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(d.Systems, " ")
}

// A description names the systems from the registry and the cache, without those that the client may not use.
func TestSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := &modproxy.Details{
			Summary: modproxy.Summary{Ref: network.At("1.0.0"), Source: "https://example.com", Published: seenAt},
			Systems: []string{"azurerm", "barred", "google", "null"},
		}
		s := (&site{said: said}).with("1.0.0")
		for _, system := range []string{"azurerm", "google", "oci", "young"} {
			s.versions[forSystem(system)] = []string{"1.0.0"}
		}
		for i, other := range []string{"net", "network-a", "network2", "NETWORK"} {
			m := forSystem(fmt.Sprint("other", i))
			m.Name = other
			s.versions[m] = []string{"1.0.0"}
			m = forSystem(fmt.Sprint("another", i))
			m.Namespace = []string{"ACME", "acme", "Acm", "Acme1"}[i]
			s.versions[m] = []string{"1.0.0"}
		}
		elsewhere := forSystem("elsewhere")
		elsewhere.Host = "other.example.com"
		s.versions[elsewhere] = []string{"1.0.0"}
		s.refused = map[modproxy.Ref]bool{
			forSystem("barred").At(""): true, forSystem("young").At("1.0.0"): true,
		}
		known := &guarded{site: s}
		c := newCatalog(s)
		c.Known = known
		for range 2 {
			if got, want := siblings(t, c), "azurerm google null oci"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if got, want := siblings(t, c, "few"), "google null oci"; got != want {
				t.Errorf("by one of few: %q, want %q", got, want)
			}
		}
		if len(said.Systems) != 4 {
			t.Error("what the registry has said was changed")
		}
		asked := known.asked
		first, _ := c.Details(t.Context(), network.At("1.0.0"))
		if again, _ := c.Details(t.Context(), network.At("1.0.0")); again != first || known.asked != asked {
			t.Error("it is made again")
		}

		// A new denial applies within a second.
		s.refused[forSystem("null").At("")], s.refused[forSystem("oci").At("1.0.0")] = true, true
		time.Sleep(time.Second)
		if got, want := siblings(t, c), "azurerm google"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got, want := siblings(t, c, "few"), "google"; got != want {
			t.Errorf("by one of few: %q, want %q", got, want)
		}
		synctest.Wait()
	})
}

// A module with a single system, in the cache or the registry, has no siblings.
func TestNoSiblings(t *testing.T) {
	s := (&site{err: modproxy.ErrNotFound}).with("1.0.0")
	if got := siblings(t, newCatalog(s)); got != "" {
		t.Error(got)
	}
	s.versions[forSystem("google")] = []string{"1.0.0"}
	if got := siblings(t, newCatalog(s)); got != "google" {
		t.Error(got)
	}
}
