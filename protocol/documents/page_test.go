package documents

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
)

func TestRecordedList(t *testing.T) {
	q := modproxy.Query{Host: "registry.terraform.io", Limit: 2}
	got, next, err := readingOf(t, "https://registry.terraform.io/v1/modules").page([]byte(recorded(t, "v1-list.json")), q)
	want := &modproxy.Page{More: true, Modules: []modproxy.Summary{
		{
			Ref:         modproxy.Address{Host: q.Host, Namespace: "GoogleCloudPlatform", Name: "lb-http", System: "google"}.At("1.0.4"),
			Description: "balances load", Source: "https://github.com/GoogleCloudPlatform/terraform-google-lb-http",
			Published: time.Date(2017, 10, 17, 1, 22, 17, 792066000, time.UTC), Downloads: 213, Verified: true,
		},
		{
			Ref:         modproxy.Address{Host: q.Host, Namespace: "terraform-aws-modules", Name: "vpc", System: "aws"}.At("1.5.1"),
			Description: "makes VPC resources", Source: "https://github.com/terraform-aws-modules/terraform-aws-vpc",
			Published: time.Date(2017, 11, 23, 10, 48, 9, 400166000, time.UTC), Downloads: 29714, Verified: true,
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || next != 2 {
		t.Errorf("%v, next at %d %s", err, next, diff)
	}
}

// entries returns list members for modules acme/NAME/aws.
func entries(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf(`{"namespace": "acme", "name": %q, "provider": "aws", "version": "1.0.0"}`, name))
	}
	return strings.Join(list, ",")
}

// Entries that the query does not select are omitted, and the registry's paging is followed.
func TestPages(t *testing.T) {
	const first, second = `{"meta": {"limit": 2, "current_offset": 0, "next_offset": 2}, `, `{"meta": {"limit": 2, "current_offset": 2}, `
	for _, c := range []struct {
		q        modproxy.Query
		document string
		want     string
	}{
		{modproxy.Query{Limit: 2}, first + `"modules": [` + entries("a", "b") + `]}`, "a b more"},
		{modproxy.Query{Limit: 2, Offset: 2}, second + `"modules": [` + entries("c") + `]}`, "c"},
		{modproxy.Query{Limit: 2}, `{"meta": {"limit": 2, "next_url": "/x"}, "modules": [` + entries("a", "b") + `]}`, "a b more"},
		{modproxy.Query{Limit: 2}, `{"meta": {"limit": 2, "next_offset": "2"}, "modules": [` + entries("a") + `]}`, "a"},
		// A registry that always announces more, and returns nothing, has no more.
		{modproxy.Query{Limit: 2, Offset: 2}, `{"meta": {"limit": 2, "next_offset": 4}, "modules": []}`, ""},
		{modproxy.Query{Limit: 2, Offset: 2}, `{"meta": {"limit": 2, "next_offset": 2}, "modules": [` + entries("a") + `]}`, "a"},
		// A registry that lists everything it has.
		{modproxy.Query{Limit: 2}, `{"modules": [` + entries("a", "b", "c") + `]}`, "a b more"},
		{modproxy.Query{Limit: 2, Offset: 2}, `{"modules": [` + entries("a", "b", "c") + `]}`, "c"},
		{modproxy.Query{Limit: 2, Offset: 9}, `{"modules": [` + entries("a", "b", "c") + `]}`, ""},
		// A registry that ignores the query.
		{modproxy.Query{Limit: 1}, first + `"modules": [` + entries("a", "b") + `]}`, "a more"},
		{modproxy.Query{Limit: 9, Namespace: "acme", Name: "B"}, `{"modules": [` + entries("a", "b") + `]}`, "b"},
		{modproxy.Query{Limit: 9, Namespace: "other"}, `{"modules": [` + entries("a", "b") + `]}`, ""},
		{modproxy.Query{Limit: 9, System: "gcp"}, `{"modules": [` + entries("a", "b") + `]}`, ""},
		{modproxy.Query{Limit: 9, Verified: true}, `{"modules": [` + entries("a", "b") + `]}`, ""},
		{modproxy.Query{Limit: 9}, `{"modules": [` + entries("a", "-", "..", "a/b", "A b", "a", "") + `, 1, null, [], {},
			{"namespace": "acme", "name": "x", "provider": "aws", "version": "latest"}, {"namespace": "acme", "name": "x", "provider": "AWS", "version": "1.0.0"},
			{"namespace": "acme", "name": "x", "provider": "aws", "version": "1.0.0+modproxy.nested"}, {"namespace": 1, "name": "x", "provider": "aws", "version": "1.0.0"},
			{"namespace": "acme", "name": "x", "version": "1.0.0"}]}`, "a"},
		{modproxy.Query{Limit: 9}, `{"meta": [], "modules": []}`, ""},
		{modproxy.Query{Limit: 9}, `{"modules": null}`, "not found"},
		{modproxy.Query{Limit: 9}, `{"modules": {}}`, "not found"},
		{modproxy.Query{Limit: 9}, `{}`, "not found"},
		{modproxy.Query{Limit: 9}, `[]`, "invalid"},
		{modproxy.Query{Limit: 9}, `<html>`, "invalid"},
		{modproxy.Query{Limit: 9}, `{"modules": [` + strings.Repeat("1,", maxElements) + `1]}`, "invalid"},
	} {
		page, _, err := readingOf(t, "https://registry.example.com/v1/modules").page([]byte(c.document), c.q)
		var got []string
		switch {
		case errors.Is(err, modproxy.ErrNotFound):
			got = []string{"not found"}
		case errors.Is(err, modproxy.ErrInvalid):
			got = []string{"invalid"}
		default:
			for _, s := range page.Modules {
				got = append(got, s.Name)
			}
			if page.More {
				got = append(got, "more")
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%+v of %.200s: %s, %v; want %s", c.q, c.document, text, err, c.want)
		}
	}
}

// A document that names very many systems is refused, because each one would be checked against the client's rights.
func TestManySystems(t *testing.T) {
	names := `"s0", "s0"`
	for i := range maxSystems {
		_, err := readingOf(t, "https://registry.example.com/").details([]byte(`{"version": "1.0.0", "providers": [`+names+`]}`), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(i, err)
		}
		names += fmt.Sprintf(`, "s%d"`, i+1)
	}
	_, err := readingOf(t, "https://registry.example.com/").details([]byte(`{"version": "1.0.0", "providers": [`+names+`]}`), vpc.At("1.0.0"))
	if !errors.Is(err, modproxy.ErrInvalid) {
		t.Error(err)
	}
}

func FuzzPage(f *testing.F) {
	f.Add([]byte(recorded(f, "v1-list.json")), 0, 15, "")
	f.Add([]byte(`{"modules": [`+entries("a", "b", "b")+`]}`), 1, 1, "acme")
	f.Fuzz(func(t *testing.T, document []byte, offset, limit int, namespace string) {
		if offset < 0 || limit < 1 {
			return
		}
		q := modproxy.Query{Host: "registry.example.com", Namespace: namespace, Offset: offset, Limit: limit}
		page, _, err := readingOf(t, "https://registry.example.com/v1/modules").page(document, q)
		if err != nil {
			return
		}
		known := map[modproxy.Address]bool{}
		for _, s := range page.Modules {
			version, err := modproxy.CanonicalVersion(s.Version)
			if s.Check() != nil || s.Host != q.Host || version != s.Version || err != nil || known[s.Address] {
				t.Errorf("%v is listed", s.Ref)
			}
			known[s.Address] = true
			isSummary(t, s)
		}
		if len(page.Modules) > limit {
			t.Errorf("%d modules, and %d were asked for", len(page.Modules), limit)
		}
	})
}
