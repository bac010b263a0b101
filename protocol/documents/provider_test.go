package documents

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

var toy = modproxy.NewProvider("registry.example.com", "acme", "toy")

// azurerm is the beginning of the answer of registry.terraform.io about hashicorp/azurerm 2.53.0, from
// github.com/renovatebot/renovate a536c32bf565 (azurerm-provider.json), with the members that were added later
// (github.com/hashicorp/terraform-mcp-server v1.2.0, pkg/client/types.go).
const azurerm = `{"id": "hashicorp/azurerm/2.53.0", "owner": "hashicorp", "namespace": "hashicorp", "name": "azurerm", "alias": "azurerm",
 "version": "2.53.0", "tag": "2.53.0", "description": "terraform-provider-azurerm",
 "source": "https://github.com/terraform-providers/terraform-provider-azurerm", "published_at": "2019-11-26T08:22:56Z",
 "downloads": 5181001, "official": true, "tier": "official", "logo_url": "/images/providers/azure.svg?3", "versions": ["2.52.0", "2.53.0"],
 "docs": [
  {"id": "27489", "title": "overview", "path": "website/docs/index.html.markdown", "slug": "index", "category": "overview", "subcategory": "", "language": "hcl"},
  {"id": "27545", "title": "netapp_account", "path": "website/docs/d/netapp_account.html.markdown", "slug": "netapp_account", "category": "data-sources", "subcategory": "NetApp", "language": "hcl"}]}`

func TestProviderDetails(t *testing.T) {
	v := modproxy.NewProvider("registry.terraform.io", "hashicorp", "azurerm").At("2.53.0")
	d, err := readingOf(t, "https://registry.terraform.io/v1/providers/hashicorp/azurerm/2.53.0").provider([]byte(azurerm), v)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(d.Ref, d.Owner, d.Tier, d.Alias, d.Logo, d.Published, d.Downloads, d.Docs)
	want := fmt.Sprint(v, "hashicorp", "official", "azurerm", "https://registry.terraform.io/images/providers/azure.svg?3",
		date("2019-11-26T08:22:56Z"), 5181001, []modproxy.Doc{
			{ID: "27489", Title: "overview", Path: "website/docs/index.html.markdown", Slug: "index", Category: "overview", Language: "hcl"},
			{ID: "27545", Title: "netapp_account", Path: "website/docs/d/netapp_account.html.markdown", Slug: "netapp_account",
				Category: "data-sources", Subcategory: "NetApp", Language: "hcl"},
		})
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for document, want := range map[string]error{
		``: modproxy.ErrInvalid, `[]`: modproxy.ErrInvalid, `{}`: modproxy.ErrNotFound, `{"version": "2.52.0"}`: modproxy.ErrNotFound,
		`{"version": "v2.53.0", "docs": {}, "tier": 1}`:                               nil,
		`{"version": "2.53.0", "docs": [` + strings.Repeat("1,", maxElements) + `1]}`: modproxy.ErrInvalid,
	} {
		if _, err := readingOf(t, "https://registry.example.com/").provider([]byte(document), v); !errors.Is(err, want) {
			t.Errorf("%.80s: %v; want %v", document, err, want)
		}
	}
}

// A history of a module ignores the members about a provider's versions, and the reverse.
func TestProviderHistory(t *testing.T) {
	const both = `{"data": {"attributes": {"tier": "official", "alias": "a", "description": "A toy", "warning": "old", "logo-url": "/toy.png"}}, "included": [` +
		`{"type": "provider-versions", "attributes": {"version": "2.0.0", "published-at": "2020-02-06T06:26:08Z"}}, ` + good + `]}`
	h, err := readingOf(t, "https://registry.example.com/v2/").history([]byte(both), toy)
	if err != nil || len(h.Versions) != 1 || h.Versions[0].Version != "2.0.0" || h.Versions[0].Published.Year() != 2020 {
		t.Errorf("%+v, %v", h, err)
	}
	if got := fmt.Sprint(h.Tier, h.Alias, h.Description, h.Warning, h.Logo); got != "officialaA toyoldhttps://registry.example.com/toy.png" {
		t.Error(got)
	}
	h, err = readingOf(t, "https://registry.example.com/v2/").history([]byte(both), vpc)
	if err != nil || len(h.Versions) != 1 || h.Versions[0].Version != "1.0.0" || h.Tier != "" {
		t.Errorf("%+v, %v", h, err)
	}
}

const docsToy = `{"id": "v1.0.0", "published": "2024-05-06T06:26:08Z", "link": "https://github.com/acme/terraform-provider-toy", "docs": {
 "index": {"name": "index", "title": "Overview", "edit_link": "https://github.com/acme/terraform-provider-toy/blob/v1.0.0/docs/index.md"},
 "resources": [{"name": "gate", "title": "toy_gate"}, {"name": "../gate"}, {"name": ".gate"}, {"name": ""}, 1],
 "datasources": [{"name": "gate", "title": "toy_gate"}], "functions": null, "guides": 1, "others": [{"name": "x"}]}}`

func TestDocsProvider(t *testing.T) {
	d, err := readingOf(t, "https://api.opentofu.org/").docsProvider([]byte(docsToy), toy.At("1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, doc := range d.Docs {
		got = append(got, doc.Category+" "+doc.ID)
	}
	if text := strings.Join(got, ", "); text != "data-sources datasources/gate, overview index, resources resources/gate" {
		t.Error(text)
	}
	if _, err := readingOf(t, "https://api.opentofu.org/").docsProvider([]byte(docsToy), toy.At("1.0.1")); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("of another version: %v", err)
	}
}

func FuzzProviderDetails(f *testing.F) {
	f.Add([]byte(strings.Replace(azurerm, `"2.53.0"`, `"1.0.0"`, 1)), false)
	f.Add([]byte(docsToy), true)
	f.Fuzz(func(t *testing.T, document []byte, docs bool) {
		parse := (*reading).provider
		if docs {
			parse = (*reading).docsProvider
		}
		d, err := parse(readingOf(t, "https://registry.example.com/v1/providers/acme/toy/1.0.0"), document, toy.At("1.0.0"))
		if err != nil {
			return
		}
		isSummary(t, d.Summary)
		isClean(t, d)
		for _, doc := range d.Docs {
			isWeb(t, doc.Link)
			if doc.ID == "" || strings.Contains(doc.ID, "..") || strings.HasPrefix(doc.ID, "/") {
				t.Errorf("document %q", doc.ID)
			}
		}
	})
}

func TestText(t *testing.T) {
	for document, want := range map[string]string{
		`{"data": {"id": "102", "attributes": {"content": "# toy\u0007_gate\n"}}}`: "# toy_gate\n",
		`{"data": {"id": "102", "attributes": {"content": 1}}}`:                    "",
		`{"data": {"id": "103", "attributes": {"content": "x"}}}`:                  "not found",
		`{"data": {"id": 102}}`: "not found",
		`{}`:                    "not found",
		`[]`:                    "invalid",
		``:                      "invalid",
	} {
		text, err := ParseText([]byte(document), "102")
		got := ""
		switch {
		case errors.Is(err, modproxy.ErrNotFound):
			got = "not found"
		case errors.Is(err, modproxy.ErrInvalid):
			got = "invalid"
		case err == nil:
			got = text.Content
		}
		if got != want {
			t.Errorf("%s: %q, %v; want %q", document, got, err, want)
		}
	}
}

func TestDocPaths(t *testing.T) {
	long := strings.Repeat("a", 256)
	for id, valid := range map[string]bool{
		"instance": true, "resources/instance": true, "guides/a.b-c_d": true, long: true, "functions/" + long: true,
		"": false, "resources/": false, "other/instance": false, "index/instance": false, "resources/../x": false, ".x": false,
		"resources/a/b": false, long + "a": false, "a b": false,
	} {
		if IsDocPath(id) != valid {
			t.Errorf("%.40q: want %v", id, valid)
		}
	}
}
