package auth_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

// listed is a catalog of modules, each as namespace/name. Like some registries it ignores the case of a namespace.
type listed struct {
	modules []string
	broken  error
	asked   int
}

var listedAt = time.Unix(1_700_000_000, 0)

func (l *listed) Details(context.Context, modproxy.Ref) (*modproxy.Details, error) {
	l.asked++
	return &modproxy.Details{}, nil
}

func (l *listed) History(context.Context, modproxy.Address) (*modproxy.History, error) {
	l.asked++
	return &modproxy.History{}, nil
}

func (l *listed) Downloads(context.Context, modproxy.Address) (*modproxy.Downloads, error) {
	l.asked++
	return &modproxy.Downloads{}, nil
}

func (l *listed) Text(context.Context, modproxy.Ref, string) (*modproxy.Text, error) {
	l.asked++
	return &modproxy.Text{}, nil
}

func (l *listed) List(_ context.Context, q modproxy.Query) (*modproxy.Page, error) {
	l.asked++
	if l.broken != nil {
		return nil, l.broken
	}
	page := &modproxy.Page{Answered: modproxy.Answered{Time: listedAt.Add(time.Duration(l.asked)), Hit: true, Stale: q.Namespace == "old"}}
	for _, at := range l.modules {
		namespace, name, _ := strings.Cut(at, "/")
		if q.Host != "corp" || q.Namespace != "" && !strings.EqualFold(q.Namespace, namespace) || !strings.Contains(name, q.Search) {
			continue
		}
		m := module(q.Host, namespace)
		m.Name = name
		page.Modules = append(page.Modules, modproxy.Summary{Ref: m.At("1.0.0")})
	}
	if len(page.Modules) == 0 && q.Search == "" {
		return nil, modproxy.ErrNotFound
	}
	page.Modules = page.Modules[min(q.Offset, len(page.Modules)):]
	page.More = len(page.Modules) > q.Limit
	page.Modules = page.Modules[:min(q.Limit, len(page.Modules))]
	return page, nil
}

func scopes(t *testing.T, list ...string) (all auth.Scopes) {
	t.Helper()
	for _, text := range list {
		scope, err := auth.ParseScope(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, scope)
	}
	return all
}

func TestCatalogTellsWhoMayRead(t *testing.T) {
	next := &listed{}
	c := &auth.Catalog{Next: next}
	reader := auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: scopes(t, "corp/acme"), Admin: true}})
	for name, q := range map[string]struct {
		ctx  context.Context
		m    modproxy.Address
		want error
	}{
		"may":       {reader, module("corp", "acme"), nil},
		"may not":   {reader, module("corp", "other"), modproxy.ErrNotFound},
		"elsewhere": {reader, module("corp2", "acme"), modproxy.ErrNotFound},
		"unsaid":    {t.Context(), module("corp", "acme"), modproxy.ErrUnauthorized},
	} {
		next.asked = 0
		_, err := c.Details(q.ctx, q.m.At("1.0.0"))
		_, err2 := c.History(q.ctx, q.m)
		_, err3 := c.Downloads(q.ctx, q.m)
		_, err4 := c.Text(q.ctx, q.m.At("1.0.0"), "1")
		for _, err := range []error{err, err2, err3, err4} {
			if !errors.Is(err, q.want) {
				t.Errorf("%s: %v, want %v", name, err, q.want)
			}
		}
		if want := map[bool]int{true: 4}[q.want == nil]; next.asked != want {
			t.Errorf("%s: %d questions were asked", name, next.asked)
		}
	}
	if _, err := c.List(t.Context(), modproxy.Query{Host: "corp", Limit: 1}); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Errorf("a list for nobody: %v", err)
	}
}

// TestCatalogListsWhatMayBeRead: pages contain the readable modules as if no others existed, including the offset and whether
// another page follows.
func TestCatalogListsWhatMayBeRead(t *testing.T) {
	next := &listed{modules: []string{"acme/a", "secret/net", "acme/b", "ACME/x", "old/c", "secret/d", "acme/net", "zoo/e"}}
	for i := range 150 {
		next.modules = append(next.modules, fmt.Sprintf("many/m%d", i))
	}
	c := &auth.Catalog{Next: next}
	for _, q := range []struct {
		scopes string
		query  modproxy.Query
		want   string
		more   bool
	}{
		{"*", modproxy.Query{Limit: 2}, "acme/a secret/net", true},
		{"corp/*", modproxy.Query{Limit: 2, Offset: 1}, "secret/net acme/b", true},
		{"corp/acme corp/*", modproxy.Query{Limit: 1, Namespace: "zoo"}, "zoo/e", false},
		{"corp/zoo corp/acme", modproxy.Query{Limit: 10}, "acme/a acme/b acme/net zoo/e", false},
		{"corp/zoo corp/acme", modproxy.Query{Limit: 2}, "acme/a acme/b", true},
		{"corp/zoo corp/acme", modproxy.Query{Limit: 2, Offset: 2}, "acme/net zoo/e", false},
		{"corp/zoo */acme", modproxy.Query{Limit: 9, Offset: 3}, "zoo/e", false},
		{"corp/zoo corp/acme", modproxy.Query{Limit: 3, Namespace: "acme"}, "acme/a acme/b acme/net", false},
		{"corp/zoo corp/acme", modproxy.Query{Limit: 9, Search: "net"}, "acme/net", false},
		{"corp/none corp/old", modproxy.Query{Limit: 9}, "old/c", false},
		{"corp/many", modproxy.Query{Limit: 2, Offset: 147}, "many/m147 many/m148", true},
		{"corp/many", modproxy.Query{Limit: 2, Offset: 148}, "many/m148 many/m149", false},
	} {
		ctx := auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: scopes(t, strings.Fields(q.scopes)...)}})
		q.query.Host, next.asked = "corp", 0
		page, err := c.List(ctx, q.query)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range page.Modules {
			got = append(got, m.Namespace+"/"+m.Name)
		}
		if strings.Join(got, " ") != q.want || page.More != q.more {
			t.Errorf("%s, %+v: %v, more %v; want %s, %v", q.scopes, q.query, got, page.More, q.want, q.more)
		}
		if !page.Hit || page.Stale != strings.Contains(q.want, "old/") || !page.Time.Equal(listedAt.Add(1)) && !strings.Contains(q.scopes, "none") {
			t.Errorf("%s, %+v: %+v", q.scopes, q.query, page.Answered)
		}
	}
}

// TestCatalogListsNothing: absent and forbidden modules have the same page, and forbidden ones are not requested from Next.
func TestCatalogListsNothing(t *testing.T) {
	next := &listed{modules: []string{"acme/a", "secret/net"}}
	c := &auth.Catalog{Next: next}
	ctx := auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: scopes(t, "corp/acme", "corp/empty", "corp2/*")}})
	for name, q := range map[string]modproxy.Query{
		"forbidden":             {Host: "corp", Namespace: "secret"},
		"another case":          {Host: "corp", Namespace: "Acme"},
		"absent":                {Host: "corp", Namespace: "empty"},
		"absent, not for it":    {Host: "corp", Namespace: "nothing"},
		"found elsewhere":       {Host: "corp", Search: "net"},
		"found nowhere":         {Host: "corp", Search: "gone"},
		"forbidden registry":    {Host: "corp3"},
		"nothing in a registry": {Host: "corp2"},
		"nothing found there":   {Host: "corp2", Search: "a"},
		"behind the end":        {Host: "corp", Offset: 1},
		"the name of another's": {Host: "corp", Namespace: "secret", Name: "net"},
		"all of another's, so":  {Host: "corp", Namespace: "*"},
	} {
		q.Limit, next.asked = 5, 0
		page, err := c.List(ctx, q)
		if err != nil || !reflect.DeepEqual(page, &modproxy.Page{}) {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
		if forbidden := q.Host == "corp3" || q.Namespace != "" && q.Namespace != "empty"; (next.asked == 0) != forbidden {
			t.Errorf("%s: %d questions were asked", name, next.asked)
		}
	}
	anybody := auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.Anonymous, Grant: auth.Grant{Scopes: scopes(t, "corp/acme")}})
	for _, q := range []modproxy.Query{{Host: "corp3"}, {Host: "corp", Namespace: "secret"}, {Host: "corp", Namespace: "nothing"}} {
		next.asked, q.Limit = 0, 5
		if page, err := c.List(anybody, q); !errors.Is(err, modproxy.ErrUnauthorized) || next.asked > 0 {
			t.Errorf("without a credential, %+v: %+v, %v", q, page, err)
		}
	}
	if page, err := c.List(anybody, modproxy.Query{Host: "corp", Limit: 5}); err != nil || len(page.Modules) != 1 {
		t.Errorf("without a credential, of a registry: %+v, %v", page, err)
	}
	next.broken = modproxy.ErrUnavailable
	if _, err := c.List(ctx, modproxy.Query{Host: "corp", Limit: 5}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("of a registry that is in trouble: %v", err)
	}
}

// endless always has another page.
type endless struct {
	listed
	late time.Duration
	each modproxy.Address
}

func (e *endless) List(ctx context.Context, _ modproxy.Query) (*modproxy.Page, error) {
	e.asked++
	select {
	case <-time.After(e.late):
		return &modproxy.Page{More: true, Modules: []modproxy.Summary{{Ref: e.each.At("1.0.0")}}}, nil
	case <-ctx.Done():
		return nil, modproxy.ErrUnavailable
	}
}

// TestCatalogEnds: an answer arrives soon, with a part of the list, however much or slowly a registry lists.
func TestCatalogEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := auth.WithPrincipal(t.Context(), auth.Principal{Kind: auth.ByToken, Grant: auth.Grant{Scopes: scopes(t, "corp/acme")}})
		for _, one := range []struct {
			endless
			offset, asked, found int
			err                  error
		}{
			{endless{each: module("corp", "other")}, 0, 21, 0, modproxy.ErrUnavailable},
			{endless{each: module("corp", "acme")}, 1000, 21, 0, modproxy.ErrUnavailable},
			{endless{each: module("corp", "acme")}, 1, 21, 20, nil},
			{endless{each: module("corp", "acme")}, 1001, 0, 0, auth.ErrOffset},
			{endless{each: module("corp", "acme")}, 100_000, 0, 0, modproxy.ErrInvalid},
			{endless{each: module("corp", "acme"), late: 2 * time.Second}, 0, 3, 2, nil},
			{endless{late: time.Minute}, 0, 1, 0, modproxy.ErrUnavailable},
		} {
			began := time.Now()
			page, err := (&auth.Catalog{Next: &one.endless}).List(ctx, modproxy.Query{Host: "corp", Limit: 100, Offset: one.offset})
			if took := time.Since(began); !errors.Is(err, one.err) || one.endless.asked != one.asked || took > 5*time.Second {
				t.Errorf("%+v: after %d questions and %v: %v", one, one.endless.asked, took, err)
			}
			if late := new(modproxy.RetryLater); one.late > time.Second && err != nil && !errors.As(err, &late) {
				t.Errorf("%+v: %v", one, err)
			}
			if err == nil && (len(page.Modules) != one.found || page.More) {
				t.Errorf("%+v: %+v", one, page)
			}
		}
	})
}
