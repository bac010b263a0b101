package upstream

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
)

const good = `{"type": "module-versions", "attributes": {"version": "1.0.0", "published-at": "2020-02-06T06:26:08Z"}}`

func TestParseDates(t *testing.T) {
	for document, want := range map[string]string{
		`{"included": [` + good + `]}`: "1.0.0 2020-02-06T06:26:08Z",
		// Of several dates of one version the latest counts, whatever their order.
		`{"included": [` + good + `, {"type": "module-versions", "attributes": {"version": "v1.0", "published-at": "2021-02-06T06:26:08Z"}}]}`:    "1.0.0 2021-02-06T06:26:08Z",
		`{"included": [{"type": "module-versions", "attributes": {"version": "1.0.0+x", "published-at": "2021-02-06T06:26:08Z"}}, ` + good + `]}`: "1.0.0 2021-02-06T06:26:08Z",
		`{"included": [` + good + `, {"type": "module-versions", "attributes": {"version": "1.0.0"}}]}`:                                           "1.0.0 2020-02-06T06:26:08Z",
		// What is wrong with one entry harms no other.
		`{"included": [` + strings.Join([]string{
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
			good,
		}, ",") + `]}`: "1.0.0 2020-02-06T06:26:08Z",
		`{}`: "", `{"included": null}`: "", `{"included": []}`: "", `null`: "",
		``: "error", `<html>`: "error", `[]`: "error", `"x"`: "error", `{"included": {}}`: "error", `{"included": [`: "error",
	} {
		dates, err := parseDates([]byte(document))
		var got []string
		for version, at := range dates {
			got = append(got, version+" "+at.UTC().Format(time.RFC3339))
		}
		if text := strings.Join(got, ", "); (err != nil) != (want == "error") || err == nil && text != want {
			t.Errorf("%s: %s, %v; want %s", document, text, err, want)
		}
	}
}

// As many versions as a module may have are read within the time that a question has.
func TestParseManyDates(t *testing.T) {
	var b strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&b, `,{"type":"module-versions","attributes":{"version":"1.%d.0","published-at":"2020-02-06T06:26:08Z"}}`, i)
	}
	began := time.Now()
	dates, err := parseDates([]byte(`{"included":[` + b.String()[1:] + `]}`))
	if took := time.Since(began); len(dates) != 100_000 || err != nil || took > 10*time.Second {
		t.Errorf("%d dates, %v, in %v", len(dates), err, took)
	}
}

func FuzzParseDates(f *testing.F) {
	f.Add([]byte(`{"included": [` + good + `]}`))
	f.Add([]byte(`{"version": "1.0.0", "published_at": "2020-02-06T06:26:08.123456Z"}`))
	f.Add([]byte(`{"included": [{"type": "module-versions", "attributes": {"version": "1.0.0-rc.1+x", "published-at": "9999-12-31T23:59:59-23:59"}}]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		dates, _ := parseDates(document)
		for version, at := range dates {
			if again, err := modproxy.CanonicalVersion(version); again != version || err != nil || strings.Contains(version, "+") || at.IsZero() {
				t.Errorf("%q at %v, %q, %v", version, at, again, err)
			}
		}
		if at, err := parseDoc(document, "1.0.0"); err != nil && !at.IsZero() {
			t.Errorf("%v beside %v", at, err)
		}
	})
}
