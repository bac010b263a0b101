package modproxy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
)

func spellings(v *modproxy.Versions) []string {
	var s []string
	for _, l := range v.List {
		s = append(s, l.Spelling)
	}
	return s
}

// decode returns document as a client decodes it.
func decode(t *testing.T, document []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseVersions(t *testing.T) {
	for _, c := range []struct {
		name, in, want string
		dropped        int
		err            error
	}{
		{
			name: "unknown fields are kept at every level",
			in:   `{"meta":1,"modules":[{"source":"https://x.example","x":[2],"versions":[{"version":"v1.0.0","deprecated":true}]}]}`,
			want: `{"meta":1,"modules":[{"source":"https://x.example","x":[2],"versions":[{"version":"v1.0.0","deprecated":true}]}]}`,
		}, {
			name:    "what no client can parse is dropped and counted",
			in:      `{"modules":[{"versions":[{"version":"1.0.0"},{"version":"../../x"},{"version":"9223372036854775808"},{"version":3},7,null,{}]}]}`,
			want:    `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`,
			dropped: 6,
		}, {
			name:    "what modproxy has made is not the registry's to list",
			in:      `{"modules":[{"versions":[{"version":"1.0.0+modproxy.at.x"},{"version":"1.0.0+b.modproxy.y"},{"version":"1.0.0+xmodproxy.z"}]}]}`,
			want:    `{"modules":[{"versions":[{"version":"1.0.0+xmodproxy.z"}]}]}`,
			dropped: 2,
		}, {
			name: "exactly one module",
			in:   `{"modules":[{"versions":[{"version":"1.0.0"}]},{"versions":[{"version":"2.0.0"}]}]}`,
			want: `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`,
		},
		{name: "versions twice", in: `{"modules":[{"versions":[{"version":"1.0.0"}],"versions":[]}]}`, err: modproxy.ErrInvalid},
		{name: "modules twice", in: `{"modules":[],"modules":[{"versions":[{"version":"1.0.0"}]}]}`, err: modproxy.ErrInvalid},
		{name: "another one behind it", in: `{"modules":[{"versions":[{"version":"1.0.0"}]}]}{}`, err: modproxy.ErrInvalid},
		{name: "no module", in: `{"modules":[]}`, err: modproxy.ErrNotFound},
		{name: "null module", in: `{"modules":[null]}`, err: modproxy.ErrNotFound},
		{name: "no modules field", in: `{}`, err: modproxy.ErrInvalid},
		{name: "no version", in: `{"modules":[{"versions":[]}]}`, err: modproxy.ErrNotFound},
		{name: "no parsable version", in: `{"modules":[{"versions":[{"version":"x"}]}]}`, err: modproxy.ErrInvalid},
		{name: "HTML", in: `<html>`, err: modproxy.ErrInvalid},
		{name: "empty", in: ``, err: modproxy.ErrInvalid},
		{name: "wrong types", in: `{"modules":{"versions":[]}}`, err: modproxy.ErrInvalid},
		{name: "truncated", in: `{"modules":[{"versions":[{"version":"1.0.0"}`, err: modproxy.ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := modproxy.ParseVersions([]byte(c.in))
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(decode(t, []byte(c.want)), decode(t, v.Document)); diff != "" {
				t.Error(diff)
			}
			if v.Dropped != c.dropped {
				t.Errorf("dropped %d, want %d", v.Dropped, c.dropped)
			}
			zr, err := gzip.NewReader(bytes.NewReader(v.Compressed))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(zr); err != nil || !bytes.Equal(b, v.Document) {
				t.Errorf("compressed form holds %q, %v", b, err)
			}
		})
	}
}

func TestVersionsWith(t *testing.T) {
	old, _ := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0"},{"version":"0.9.0","root":{}}]}]}`))
	now, _ := modproxy.ParseVersions([]byte(`{"modules":[{"source":"s","versions":[{"version":"v1.0.0"},{"version":"2.0.0"}]}]}`))
	merged, err := now.With(old.List)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"v1.0.0", "2.0.0", "0.9.0"}, spellings(merged)); diff != "" {
		t.Error(diff)
	}
	want := `{"modules":[{"source":"s","versions":[{"version":"v1.0.0"},{"version":"2.0.0"},{"version":"0.9.0","root":{}}]}]}`
	if diff := cmp.Diff(decode(t, []byte(want)), decode(t, merged.Document)); diff != "" {
		t.Error(diff)
	}
	if same, err := merged.With(old.List); err != nil || same != merged {
		t.Errorf("nothing to add, yet With made a new answer (%v)", err)
	}
	if merged.ETag == now.ETag {
		t.Error("two documents have one entity tag")
	}
}

func TestVersionsLatest(t *testing.T) {
	for in, want := range map[string]string{
		`{"version":"1.0.0"},{"version":"1.10.0"},{"version":"1.9.0"}`:             "1.10.0",
		`{"version":"2.0.0-rc1"},{"version":"1.0.0"}`:                              "1.0.0",
		`{"version":"1.0.0"},{"version":"2.0.0-rc1"}`:                              "1.0.0",
		`{"version":"2.0.0-rc.9"},{"version":"2.0.0-rc.10"},{"version":"1.0.0-x"}`: "2.0.0-rc.10",
	} {
		v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[` + in + `]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := v.Latest(); !ok || got.String() != want {
			t.Errorf("latest of %s is %s, want %s", in, got, want)
		}
	}
	if _, ok := (&modproxy.Versions{}).Latest(); ok {
		t.Error("an empty list has a latest version")
	}
}

// The entries of an answer are subslices of its document, so that memory holds them once.
func TestEntriesAreInTheDocument(t *testing.T) {
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[ {"version": "1.0.0"} , {"version": "<"}, {"version":"2.0.0","x":"<&>"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{`{"version":"1.0.0"}`, `{"version":"2.0.0","x":"<&>"}`} {
		if got := string(v.List[i].Entry); got != want || !bytes.Contains(v.Document, []byte(want)) {
			t.Errorf("entry %d is %s, want %s; the document is %s", i, got, want, v.Document)
		}
	}
}

// No input of a registry causes a panic. Parsing an accepted document again accepts it with the same meaning.
func FuzzParseVersions(f *testing.F) {
	f.Add([]byte(`{"modules":[{"source":"s","versions":[{"version":"v1.0.0","x":1},{"version":"bad/../"}]}],"y":null}`))
	f.Add([]byte(`{"modules":[]}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := modproxy.ParseVersions(document)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrNotFound) {
				t.Fatalf("error %v is none of the sentinels", err)
			}
			return
		}
		again, err := modproxy.ParseVersions(v.Document)
		if err != nil || again.Dropped != 0 || len(again.List) != len(v.List) || len(v.List) == 0 {
			t.Fatalf("%q parsed to %q, which parses to %+v, %v", document, v.Document, again, err)
		}
	})
}

// A stored document that is served unchanged keeps its gzip form. Any other document gets its own.
func TestRestoreVersions(t *testing.T) {
	m := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	stored, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"1.1.0"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	v, err := modproxy.RestoreVersions(m, stored.Document, stored.Compressed)
	if err != nil || &v.Compressed[0] != &stored.Compressed[0] || len(v.List) != 2 || v.ETag != stored.ETag {
		t.Errorf("unchanged: %+v, %v", v, err)
	}
	spaced := append([]byte(" "), bytes.ReplaceAll(stored.Document, []byte(","), []byte(" , "))...)
	if v, err = modproxy.RestoreVersions(m, spaced, []byte("other")); err != nil || !bytes.Equal(v.Document, stored.Document) {
		t.Fatalf("with spaces: %+v, %v", v, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(v.Compressed))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, v.Document) {
		t.Errorf("with spaces, compressed: %q, %v", plain, err)
	}
}
