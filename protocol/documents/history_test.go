package documents

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/rig"
)

var vpc = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}

// readingOf returns a reading of a document at that URL.
func readingOf(t testing.TB, from string) *reading {
	t.Helper()
	u, err := url.Parse(from)
	if err != nil {
		t.Fatal(err)
	}
	return newReading(u)
}

// datesIn returns the known dates in h by version.
func datesIn(h *modproxy.History) map[string]time.Time {
	dates := map[string]time.Time{}
	for _, v := range h.Versions {
		if !v.Published.IsZero() {
			dates[v.Version] = v.Published
		}
	}
	return dates
}

const good = `{"type": "module-versions", "attributes": {"version": "1.0.0", "published-at": "2020-02-06T06:26:08Z"}}`

func TestDates(t *testing.T) {
	for document, want := range map[string]string{
		`{"included": [` + good + `]}`: "1.0.0 2020-02-06T06:26:08Z",
		// If one version has several dates, the latest counts, in any order.
		`{"included": [` + good + `, {"type": "module-versions", "attributes": {"version": "v1.0", "published-at": "2021-02-06T06:26:08Z"}}]}`: "1.0.0 2021-02-06T06:26:08Z",
		`{"included": [{"type": "module-versions", "attributes": {"version": "1.0", "published-at": "2021-02-06T06:26:08Z"}}, ` + good + `]}`:  "1.0.0 2021-02-06T06:26:08Z",
		`{"included": [{"type": "module-versions", "attributes": {"version": "1.0.0+x", "published-at": "2021-02-06T06:26:08Z"}}]}`:            "1.0.0+x 2021-02-06T06:26:08Z", // differs from 1.0.0
		`{"included": [` + good + `, {"type": "module-versions", "attributes": {"version": "1.0.0"}}]}`:                                        "1.0.0 2020-02-06T06:26:08Z",
		// An invalid entry does not affect others.
		`{"data": 1, "included": [` + strings.Join([]string{
			`null`, `1`, `"x"`, `[]`, `{}`, `{"type": 1}`, `{"type": "module-versions"}`, `{"type": "module-versions", "attributes": []}`,
			`{"type": "module-versions", "attributes": {"version": 1, "published-at": "2020-02-06T06:26:08Z"}}`,
			`{"type": "module-versions", "attributes": {"version": "latest", "published-at": "2020-02-06T06:26:08Z"}}`,
			`{"type": "providers", "attributes": {"version": "2.0.0", "published-at": "2020-02-06T06:26:08Z"}}`,
			`{"type": "module-versions", "attributes": {"version": "3.0.0", "published-at": ""}}`,
			`{"type": "module-versions", "attributes": {"version": "4.0.0", "published-at": null}}`,
			`{"type": "module-versions", "attributes": {"version": "5.0.0", "published-at": 1580970368}}`,
			`{"type": "module-versions", "attributes": {"version": "6.0.0", "published-at": "yesterday"}}`,
			`{"type": "module-versions", "attributes": {"version": "7.0.0", "published-at": "2020-02-06"}}`,
			`{"type": "module-versions", "attributes": {"version": "8.0.0", "published-at": "10000-01-01T00:00:00Z"}}`,
			`{"type": "module-versions", "attributes": {"version": "9.0.0", "published-at": "9999-12-31T23:59:59-23:59"}}`,
			`{"type": "module-versions", "attributes": {"version": "9.1.0+modproxy.nested", "published-at": "2020-02-06T06:26:08Z"}}`,
			good,
		}, ",") + `]}`: "1.0.0 2020-02-06T06:26:08Z",
		`{}`: "", `{"included": null}`: "", `{"included": []}`: "", `{"included": 1}`: "", " \n{}": "",
		``: "error", `<html>`: "error", `[]`: "error", `"x"`: "error", `null`: "error", `{"included": [`: "error",
	} {
		h, err := readingOf(t, "https://registry.example.com/v2/").history([]byte(document), vpc)
		var got []string
		if err == nil {
			for version, at := range datesIn(h) {
				got = append(got, version+" "+at.Format(time.RFC3339))
			}
		}
		if text := strings.Join(got, ", "); (err != nil) != (want == "error") || err == nil && text != want {
			t.Errorf("%s: %s, %v; want %s", document, text, err, want)
		}
	}
}

// The most versions that a module may have are read; more are an error.
func TestManyDates(t *testing.T) {
	every := 50 // one element of so many is a version, to parse less
	if rig.Long() {
		every = 1
	}
	var b strings.Builder
	for i := range maxElements {
		if i%every > 0 {
			b.WriteString(",1")
			continue
		}
		fmt.Fprintf(&b, `,{"type":"module-versions","attributes":{"version":"1.%d.0","published-at":"2020-02-06T06:26:08Z"}}`, i)
	}
	h, err := readingOf(t, "https://registry.example.com/v2/").history([]byte(`{"included":[`+b.String()[1:]+`]}`), vpc)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(datesIn(h)); n != maxElements/every {
		t.Errorf("%d dates; want %d", n, maxElements/every)
	}
	if _, err := readingOf(t, "https://registry.example.com/v2/").history([]byte(`{"included":[1`+b.String()+`]}`), vpc); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("one more: %v", err)
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte(`{"included": [`+good+`]}`), false)
	f.Add([]byte(recorded(f, "v2-vpc.json")), false)
	f.Add([]byte(recorded(f, "docs-index.json")), true)
	f.Add([]byte(`{"included": [{"type": "module-versions", "attributes": {"version": "1.0.0-rc.1+x", "published-at": "9999-12-31T23:59:59-23:59"}}]}`), false)
	f.Add([]byte(`{"included": [{"type": "module-versions", "attributes": {"version": "1.0.0+x", "published-at": "2021-02-06T06:26:08Z"}}]}`), false)
	f.Fuzz(func(t *testing.T, document []byte, docs bool) {
		r := readingOf(t, "https://registry.example.com/v2/modules/acme/vpc/aws")
		parse := (*reading).history
		if docs {
			parse = (*reading).docsHistory
		}
		h, err := parse(r, document, vpc)
		if err != nil {
			return
		}
		isWeb(t, h.Logo, h.Source)
		isCount(t, h.Downloads)
		seen := map[string]bool{}
		for _, v := range h.Versions {
			again, err := modproxy.CanonicalVersion(v.Version)
			if again != v.Version || err != nil || seen[v.Version] || !vpc.At(v.Version).IsListed() {
				t.Errorf("%q, %q, %v", v.Version, again, err)
			}
			seen[v.Version] = true
			isDate(t, v.Published)
			isWeb(t, v.Source)
			isCount(t, v.Downloads)
		}
		if !slices.IsSortedFunc(h.Versions, func(a, b modproxy.DatedVersion) int { return strings.Compare(a.Version, b.Version) }) {
			t.Error("the same document may give another answer")
		}
	})
}
