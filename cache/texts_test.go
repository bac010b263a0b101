package cache_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store/storetest"
)

func docs(ids ...int) (list []modproxy.Doc) {
	for _, id := range ids {
		list = append(list, modproxy.Doc{ID: strconv.Itoa(id)})
	}
	return list
}

// Which versions have a document with a number is known when their details were asked for once, also later and elsewhere.
func TestNumbered(t *testing.T) {
	toy := modproxy.NewProvider("registry.example.com", "acme", "toy")
	twin := modproxy.NewProvider("registry.example.com", "acme", "twin")
	next := &says{saying: saying{docs: map[modproxy.Ref][]modproxy.Doc{
		toy.At("1.0.0"):  docs(4094, 4095, 4096, 4097, 9000),
		toy.At("1.1.0"):  docs(4099, 4098),
		twin.At("2.0.0"): append(docs(4096), modproxy.Doc{ID: "resources/gate"}, modproxy.Doc{ID: "007"}),
	}}}
	storage := &storetest.Memory{}
	catalog := func() *cache.Catalog {
		c := newCatalog(storage.Handle())
		c.Next = next
		t.Cleanup(func() { closeCatalog(t, c) })
		return c
	}
	c := catalog()
	numbered := func(c *cache.Catalog, host, id string) string {
		t.Helper()
		versions, err := c.Numbered(t.Context(), host, id)
		if err != nil {
			return err.Error()
		}
		var names []string
		for _, v := range versions {
			names = append(names, v.Name+" "+v.Version)
		}
		slices.Sort(names)
		return strings.Join(names, ", ")
	}
	if got := numbered(c, toy.Host, "4096"); got != "" {
		t.Errorf("before: %s", got)
	}
	for v := range next.docs {
		if _, err := c.Details(t.Context(), v); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"4093": "", "4094": "toy 1.0.0", "4095": "toy 1.0.0", "4096": "toy 1.0.0, twin 2.0.0", "4097": "toy 1.0.0", "4098": "toy 1.1.0",
		"4099": "toy 1.1.0", "4100": "", "8999": "", "9000": "toy 1.0.0", "9001": "", "7": "", "007": "", "resources/gate": "", "": "", "-1": "",
		"99999999999999999999": "",
	}
	for id, want := range want {
		for name, c := range map[string]*cache.Catalog{"known": c, "elsewhere": catalog()} {
			if got := numbered(c, toy.Host, id); got != want {
				t.Errorf("%s: %q is of %q; want %q", name, id, got, want)
			}
		}
		if got := numbered(c, "registry.example", id); got != "" {
			t.Errorf("%q of another registry is of %q", id, got)
		}
	}
	// A registry that gives too many versions documents around one number is not searched without end.
	many := map[modproxy.Ref][]modproxy.Doc{}
	for i := range 1025 {
		v := toy.At(fmt.Sprintf("3.0.%d", i))
		many[v] = docs(1_000_000 + i)
	}
	next.change(func(s *saying) { s.docs = many })
	for v := range many {
		if _, err := c.Details(context.Background(), v); err != nil {
			t.Fatal(err)
		}
	}
	if got := numbered(c, toy.Host, "1000000"); !strings.Contains(got, "more than 1024 versions") {
		t.Error(got)
	}
}
