package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestParseSelected(t *testing.T) {
	docs := []modproxy.Doc{
		{ID: "1", Category: "resources", Slug: "gate", Language: "hcl", Subcategory: "Gates"},
		{ID: "2", Category: "resources", Slug: "gate", Language: "python"},
		{ID: "3", Category: "guides", Slug: "upgrade", Language: "hcl"},
		{ID: "4", Category: "resources", Slug: "wall", Language: "hcl"},
	}
	const of = "filter[provider-version]=ACME/toy/v1.0"
	for query, want := range map[string]string{
		of:                                  "4 1 2 3 4",
		of + "&filter[category]=resources":  "3 1 2 4",
		of + "&filter%5Bcategory%5D=guides": "1 3",
		of + "&filter[language]=hcl&filter[slug]=gate":    "1 1",
		of + "&filter[slug]=upgrade,wall":                 "2 3 4",
		of + "&filter[subcategory]=Gates":                 "1 1",
		of + "&filter[subcategory]=None":                  "0",
		of + "&page[size]=3":                              "4 1 2 3",
		of + "&page[size]=3&page[number]=2":               "4 4",
		of + "&page[size]=3&page[number]=3":               "4",
		of + "&page[number]=0&other=x":                    "4 1 2 3 4",
		of + "&page[size]=0":                              "4 1 2 3 4",
		of + "&page[number]=2147483647&page[size]=100000": "4",
		of + "&page[number]=2147483648":                   "Bad Request",
		of + "&page[size]=-1":                             "Bad Request",
		of + "&%zz":                                       "Bad Request",
		"":                                                "Bad Request",
		"filter[provider-version]=40":                     "Bad Request",
		"filter[provider-version]=acme/to--y/1.0.0":       "Bad Request",
		"filter[provider-version]=acme/toy/x":             "Bad Request",
		"filter[provider-version]=-/toy/1.0.0":            "Not Found",
	} {
		got := read(t, func(host, query string) (request, error) {
			s, err := parseSelected(host, query)
			if err != nil {
				return request{}, err
			}
			if s.String() != "registry.acme.example/acme/toy 1.0.0" {
				t.Errorf("%s: %s", query, s)
			}
			all, page := s.of(docs)
			got := []string{fmt.Sprint(len(all))}
			for _, doc := range page {
				got = append(got, doc.ID)
			}
			return request{kind: kind(strings.Join(got, " "))}, nil
		}, "registry.acme.example", query)
		if got = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(got), "//")); got != want {
			t.Errorf("%s: %q; want %q", query, got, want)
		}
	}
}

func FuzzParseSelected(f *testing.F) {
	f.Add("filter[provider-version]=acme/toy/1.0.0&filter[category]=resources&page[number]=2&page[size]=3")
	f.Fuzz(func(t *testing.T, query string) {
		s, err := parseSelected("registry.acme.example", query)
		if err != nil {
			return
		}
		if err := s.CheckProvider(); err != nil || s.Version == "" || s.page < 1 || s.size < 1 || s.size > maxPageSize {
			t.Errorf("%q: %+v, %v", query, s, err)
		}
		all, page := s.of([]modproxy.Doc{{Category: "resources"}, {}})
		if len(page) > len(all) {
			t.Errorf("%q: %d of %d", query, len(page), len(all))
		}
	})
}
