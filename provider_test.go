package modproxy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestProviderAddress(t *testing.T) {
	p := modproxy.NewProvider("registry.example.com", "ACME", "Toy")
	if err := p.CheckProvider(); err != nil || p.String() != "registry.example.com/acme/toy" || !p.IsProvider() {
		t.Errorf("%s: %v", p, err)
	}
	for _, bad := range []modproxy.Address{
		{Host: "h.example", Namespace: "acme", Name: "toy", System: "aws"},
		{Host: "h.example", Namespace: "-", Name: "toy"},
		{Host: "h.example", Namespace: "acme", Name: "terraform-toy"},
		{Host: "h.example", Namespace: "acme", Name: "a--b"},
		{Host: "h.example", Namespace: "acme", Name: "Toy"},
		{Host: "h.example", Namespace: "acme"},
	} {
		if err := bad.CheckProvider(); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("CheckProvider of %s = %v; want ErrInvalid", bad, err)
		}
	}
	if err := p.Check(); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("Check of a provider as a module = %v; want ErrInvalid", err)
	}
}

func TestParseProviderVersions(t *testing.T) {
	const document = `{"id":"acme/toy","versions":[
		{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"},{"os":"../x","arch":"amd64"}],"more":1},
		{"version":"01.0.0"}, {"version":"v2.0.0"}, {"version":"1.2.3.4"}, null, {"version":"18446744073709551616.0.0"},
		{"version":"1.1","protocols":"4.0,5.0","platforms":null}, {"version":"1.2.0+b"}, {"version":"1.2.0+modproxy.platform.linux-amd64"}], "warnings":["old", 1], "x":[]}`
	v, err := modproxy.ParseProviderVersions([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"}]},` +
		`{"version":"1.1.0"},{"version":"1.2.0+b"}],"warnings":["old"]}`
	if got := string(v.Document); got != want {
		t.Errorf("document\n%s\nwant\n%s", got, want)
	}
	if v.Dropped != 6 {
		t.Errorf("%d dropped, want 6", v.Dropped)
	}
	if r := v.List[0].Release(); r.Version != "1.0.0" || len(r.Platforms) != 1 || r.Platforms[0].String() != "linux_amd64" {
		t.Errorf("release %+v", r)
	}
	again, err := modproxy.ParseProviderVersions(v.Document)
	if err != nil || string(again.Document) != want {
		t.Errorf("what was written reads as %s, %v", again.Document, err)
	}
	some, err := v.Only(func(l modproxy.Listed) bool { return l.Spelling != "1.0.0" })
	if err != nil || !strings.HasPrefix(string(some.Document), `{"versions":[{"version":"1.1.0"},`) {
		t.Errorf("without 1.0.0 it is %s, %v", some.Document, err)
	}
	warned, err := some.Warn("1.0.0 is not allowed here")
	if err != nil || !strings.HasSuffix(string(warned.Document), `"warnings":["old","1.0.0 is not allowed here"]}`) {
		t.Errorf("warned it is %s, %v", warned.Document, err)
	}
	more, err := some.With(v.List)
	if err != nil || len(more.List) != 3 {
		t.Errorf("with all again it is %s, %v", more.Document, err)
	}
	for _, bad := range []string{`[]`, `{"versions":[{"version":"v1"}]}`, `{`} {
		if _, err := modproxy.ParseProviderVersions([]byte(bad)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v; want ErrInvalid", bad, err)
		}
	}
	if _, err := modproxy.ParseProviderVersions([]byte(`{}`)); !errors.Is(err, modproxy.ErrNotFound) {
		t.Errorf("{}: %v; want ErrNotFound", err)
	}
}

func FuzzParseProviderVersions(f *testing.F) {
	f.Add([]byte(`{"versions":[{"version":"1.0.0","platforms":[{"os":"linux","arch":"amd64"}]}],"warnings":["x"]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		v, err := modproxy.ParseProviderVersions(document)
		if err != nil {
			return
		}
		again, err := modproxy.ParseProviderVersions(v.Document)
		if err != nil || string(again.Document) != string(v.Document) {
			t.Errorf("%s reads as %s, %v", v.Document, again.Document, err)
		}
	})
}
