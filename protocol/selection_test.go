package protocol_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/protocol"
)

func TestParseSelection(t *testing.T) {
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
		got := ""
		s, err := protocol.ParseSelection("registry.acme.example", query)
		if bad := (*protocol.Error)(nil); errors.As(err, &bad) {
			got = http.StatusText(bad.Status)
		} else {
			if s.String() != "registry.acme.example/acme/toy 1.0.0" || err != nil {
				t.Errorf("%s: %s, %v", query, s, err)
			}
			all, page := s.Of(docs)
			got = fmt.Sprint(len(all))
			for _, doc := range page {
				got += " " + doc.ID
			}
		}
		if got != want {
			t.Errorf("%s: %q; want %q", query, got, want)
		}
	}
}

func FuzzParseSelection(f *testing.F) {
	f.Add("filter[provider-version]=acme/toy/1.0.0&filter[category]=resources&page[number]=2&page[size]=3")
	f.Fuzz(func(t *testing.T, query string) {
		s, err := protocol.ParseSelection("registry.acme.example", query)
		if err != nil {
			return
		}
		if err := s.CheckProvider(); err != nil || s.Version == "" || s.Page < 1 || s.Size < 1 || s.Size > 100 {
			t.Errorf("%q: %+v, %v", query, s, err)
		}
		all, page := s.Of([]modproxy.Doc{{Category: "resources"}, {}})
		if len(page) > len(all) {
			t.Errorf("%q: %d of %d", query, len(page), len(all))
		}
	})
}
