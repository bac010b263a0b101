package documents

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
)

// again returns the result of parse for a document that this package has made.
func again[T any](t *testing.T, document any, parse func([]byte, *url.URL) (T, error)) T {
	t.Helper()
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	from, err := url.Parse("https://modules.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	v, err := parse(text, from)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A proxy behind a proxy serves what the registry has: the documents that Format functions make are read without a loss.
func TestDocumentsAreReadAgain(t *testing.T) {
	same := func(name string, want, got any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	const host = "registry.terraform.io"
	from, none := &url.URL{Scheme: "https", Host: host, Path: "/v1/"}, &modproxy.Versions{}
	for _, c := range []struct {
		name, document string
		v              modproxy.Ref
	}{
		{"v1-ec.json", recorded(t, "v1-ec.json"), modproxy.Address{Host: host, Namespace: "puppetlabs", Name: "deployment", System: "ec"}.At("0.0.8")},
		{"v1-label.json", recorded(t, "v1-label.json"), modproxy.Address{Host: host, Namespace: "cloudposse", Name: "label", System: "null"}.At("0.25.0")},
		{"v1-consul.json", recorded(t, "v1-consul.json"), modproxy.Address{Host: host, Namespace: "hashicorp", Name: "consul", System: "aws"}.At("0.4.0")},
		{"azurerm", azurerm, modproxy.NewProvider(host, "hashicorp", "azurerm").At("2.53.0")},
	} {
		d, err := ParseDetails([]byte(c.document), from, c.v)
		if err != nil {
			t.Fatal(err)
		}
		parse := func(text []byte, from *url.URL) (*modproxy.Details, error) { return ParseDetails(text, from, c.v) }
		same(c.name, d, again(t, FormatDetails(d, none), parse))
	}
	for document, v := range map[string]modproxy.Ref{
		recorded(t, "docs-version.json"): modproxy.Address{Host: host, Namespace: "terraform-aws-modules", Name: "vpc", System: "aws"}.At("5.1.0"),
		docsToy:                          toy.At("1.0.0"),
	} {
		d, err := ParseDocsDetails([]byte(document), from, v)
		if err != nil {
			t.Fatal(err)
		}
		parse := func(text []byte, from *url.URL) (*modproxy.Details, error) { return ParseDocsDetails(text, from, v) }
		same(v.String(), d, again(t, FormatDocsDetails(d), parse))
	}

	provider := `{"data": {"attributes": {"tier": "official", "alias": "a", "description": "A toy", "warning": "old", "owner-name": "acme"}}, "included": [` +
		strings.Replace(good, "module-", "provider-", 1) + `]}`
	for document, m := range map[string]modproxy.Address{recorded(t, "v2-vpc.json"): vpc, provider: toy} {
		h, err := ParseHistory([]byte(document), from, m)
		if err != nil || len(h.Versions) == 0 {
			t.Fatal(h, err)
		}
		parse := func(text []byte, from *url.URL) (*modproxy.History, error) { return ParseHistory(text, from, m) }
		same(m.String(), h, again(t, FormatHistory(h), parse))
	}
	h, err := ParseDocsHistory([]byte(recorded(t, "docs-index.json")), from, vpc)
	if err != nil {
		t.Fatal(err)
	}
	same("docs-index.json", h, again(t, FormatDocsHistory(h), func(text []byte, from *url.URL) (*modproxy.History, error) {
		return ParseDocsHistory(text, from, vpc)
	}))

	counts := &modproxy.Downloads{Week: 3, Month: 14, Year: 159, Total: 2653}
	same("downloads", counts, again(t, FormatDownloads(vpc, counts), func(text []byte, _ *url.URL) (*modproxy.Downloads, error) { return ParseDownloads(text) }))

	q := modproxy.Query{Host: host, Limit: 2}
	page, _, err := ParsePage([]byte(recorded(t, "v1-list.json")), from, q)
	if err != nil {
		t.Fatal(err)
	}
	same("v1-list.json", page, again(t, FormatPage(q, page, func(int) string { return "/" }), func(text []byte, from *url.URL) (*modproxy.Page, error) {
		p, next, err := ParsePage(text, from, q)
		if next != q.Limit {
			t.Errorf("the next part begins at %d", next)
		}
		return p, err
	}))

	text := &modproxy.Text{Content: "# toy_gate\n"}
	same("text", text, again(t, FormatText(modproxy.Doc{ID: "102"}, text), func(document []byte, _ *url.URL) (*modproxy.Text, error) {
		return ParseText(document, "102")
	}))
}
