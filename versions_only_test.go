package modproxy_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
)

// onlyOf returns v with only the versions of those spellings.
func onlyOf(t *testing.T, v *modproxy.Versions, keep ...string) *modproxy.Versions {
	t.Helper()
	some, err := v.Only(func(l modproxy.Listed) bool {
		for _, s := range keep {
			if s == l.Spelling {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return some
}

// Dropped versions are missing in every form that is served. The rest stays as the registry has it.
func TestVersionsOnly(t *testing.T) {
	const document = `{"meta":1,"modules":[{"source":"s","x":[2],"versions":[{"version":"v1.0","a":"<&>"},{"version":"2.0.0"},` +
		`{"version":"bad/../"},{"version":"3.0.0","root":{}}],"y":null}],"z":0}`
	v, err := modproxy.ParseVersions([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	v.Time, v.Hit, v.Stale = time.Unix(1, 0), true, true
	before := bytes.Clone(v.Document)
	some := onlyOf(t, v, "3.0.0", "v1.0")
	want := `{"meta":1,"modules":[{"source":"s","x":[2],"versions":[{"version":"v1.0","a":"<&>"},{"version":"3.0.0","root":{}}],"y":null}],"z":0}`
	if diff := cmp.Diff(want, string(some.Document)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"v1.0", "3.0.0"}, spellings(some)); diff != "" {
		t.Error(diff)
	}
	if some.Dropped != 1 || !some.Hit || !some.Stale || !some.Time.Equal(v.Time) || some.ETag == v.ETag {
		t.Errorf("%+v", some)
	}
	zr, err := gzip.NewReader(bytes.NewReader(some.Compressed))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(zr); err != nil || !bytes.Equal(b, some.Document) {
		t.Errorf("compressed form holds %q, %v", b, err)
	}
	if entry := string(some.List[0].Entry); entry != `{"version":"v1.0","a":"<&>"}` {
		t.Error(entry)
	}
	if !bytes.Equal(before, v.Document) || len(v.List) != 3 {
		t.Errorf("Only has changed %s", v.Document)
	}
	if _, found := some.Find("2.0.0"); found {
		t.Error("2.0.0 is found")
	}
	if again := onlyOf(t, v, "v1.0", "3.0.0"); again.ETag != some.ETag {
		t.Error("one document has two entity tags")
	}
}

func TestVersionsOnlyAllOrNone(t *testing.T) {
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"2.0.0"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if all := onlyOf(t, v, "1.0.0", "2.0.0"); all != v {
		t.Errorf("all of them are %s", all.Document)
	}
	if none := onlyOf(t, v); none != nil {
		t.Errorf("none of them is %s", none.Document)
	}
}

// A registry may list a version twice, in one spelling or in two.
func TestVersionsOnlyTwice(t *testing.T) {
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"1.0"},{"version":"1.0.0","x":1},{"version":"2.0.0"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	precedence := func(want string) *modproxy.Versions {
		some, err := v.Only(func(l modproxy.Listed) bool { return l.Version.String() == want })
		if err != nil {
			t.Fatal(err)
		}
		return some
	}
	if got := strings.Join(spellings(precedence("1.0.0")), " "); got != "1.0.0 1.0 1.0.0" {
		t.Error(got)
	}
	if got := strings.Join(spellings(precedence("2.0.0")), " "); got != "2.0.0" {
		t.Error(got)
	}
	if got := onlyOf(t, v, "1.0.0", "1.0", "2.0.0"); len(got.List) != 4 {
		t.Errorf("%q", spellings(got))
	}
}

// For any selection, the list, the document and the parsed document agree.
func TestVersionsOnlyAnything(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	for range 2000 {
		var entries []string
		for range 1 + r.Intn(8) {
			entries = append(entries, []string{
				`{"version":"1.0.0"}`, `{"version":"v1"}`, `{"version":"2.0.0-rc1", "x": [1, {"version":"9.0.0"}]}`, `{"version":"3.0.0+b"}`,
				`{"version":"../x"}`, `null`, `{"Version":"4.0.0"}`, `{"version":"5.0.0","version":"6.0.0"}`,
			}[r.Intn(8)])
		}
		v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[` + strings.Join(entries, ",") + `]}]}`))
		if errors.Is(err, modproxy.ErrInvalid) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		keep, want := map[string]bool{}, []string(nil)
		for _, l := range v.List {
			if _, ok := keep[l.Spelling]; !ok {
				keep[l.Spelling] = r.Intn(2) == 0
			}
			if keep[l.Spelling] {
				want = append(want, l.Spelling)
			}
		}
		some, err := v.Only(func(l modproxy.Listed) bool { return keep[l.Spelling] })
		if err != nil || (some == nil) != (want == nil) {
			t.Fatalf("%q of %s: %v, %v", want, v.Document, some, err)
		}
		if some == nil {
			continue
		}
		again, err := modproxy.ParseVersions(some.Document)
		if err != nil || !cmp.Equal(want, spellings(some)) || !cmp.Equal(want, spellings(again)) {
			t.Fatalf("%q of %s: %s, %v", want, v.Document, some.Document, err)
		}
	}
}

// Clients match field names without regard to case, and the last one counts. If a document has its modules twice, clients
// find the dropped versions in neither.
func TestHiddenVersionsInAnotherField(t *testing.T) {
	v, err := modproxy.ParseVersions([]byte(`{"modules":[{"versions":[{"version":"1.0.0"},{"version":"2.0.0"}]}],` +
		`"Modules":[{"versions":[{"version":"2.0.0"}]}]}`))
	if err != nil {
		return // an error is also correct
	}
	some, err := v.Only(func(l modproxy.Listed) bool { return l.Spelling != "2.0.0" })
	if err != nil {
		t.Fatal(err)
	}
	var client struct {
		Modules []struct {
			Versions []struct{ Version string }
		}
	}
	if err := json.Unmarshal(some.Document, &client); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(client.Modules[0].Versions, struct{ Version string }{"2.0.0"}) {
		t.Errorf("clients read 2.0.0 in %s", some.Document)
	}
}
