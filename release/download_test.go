package release

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

var base = &url.URL{Scheme: "https", Host: "registry.example.com", Path: "/v1/providers/acme/toy/1.0.0/download/linux/amd64"}

// downloadOf returns a download document after change has modified it.
func downloadOf(t testing.TB, change func(map[string]any)) []byte {
	t.Helper()
	d := map[string]any{
		"protocols": []string{"5.0"}, "os": "linux", "arch": "amd64", "filename": "toy_linux_amd64.zip",
		"download_url":          "https://somebody:secret@files.example.com/toy.zip?token=secret#secret",
		"shasums_url":           "/files/SUMS",
		"shasums_signature_url": "SUMS.sig?token=secret",
		"shasum":                strings.Repeat("Ab", 32),
		"signing_keys":          map[string]any{"gpg_public_keys": []any{listed(t, newEntity(t, at(now)))}},
		"x":                     []any{},
	}
	if change != nil {
		change(d)
	}
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParseDownload(t *testing.T) {
	d, err := ParseDownload(downloadOf(t, nil), base, linux)
	if err != nil {
		t.Fatal(err)
	}
	if d.Archive.File != "toy_linux_amd64.zip" || d.Archive.Platform != linux || d.Archive.Digest.String() != strings.Repeat("ab", 32) {
		t.Errorf("archive %+v", d.Archive)
	}
	if d.Archive.URL != "https://files.example.com/toy.zip" || !strings.Contains(d.ZipURL.String(), "somebody:secret@") {
		t.Errorf("URL for people %s, of %s", d.Archive.URL, d.ZipURL)
	}
	if d.SumsURL.String() != "https://registry.example.com/files/SUMS" ||
		d.SignatureURL.String() != "https://registry.example.com/v1/providers/acme/toy/1.0.0/download/linux/SUMS.sig?token=secret" {
		t.Errorf("URLs %s and %s", d.SumsURL, d.SignatureURL)
	}
	if len(d.Keys) != 1 || len(d.Dropped) != 0 || d.Packages != nil || d.Protocols[0] != "5.0" {
		t.Errorf("%+v", d)
	}
}

func TestParseDownloadRules(t *testing.T) {
	zh, other := "zh:"+strings.Repeat("ab", 32), "zh:"+strings.Repeat("00", 32)
	set := func(name string, value any) func(map[string]any) { return func(d map[string]any) { d[name] = value } }
	keys := func(keys ...any) func(map[string]any) {
		return set("signing_keys", map[string]any{"gpg_public_keys": keys})
	}
	packages := func(hashes []string, size int) func(map[string]any) {
		return set("packages", map[string]any{"linux_amd64": map[string]any{"hashes": hashes, "package_size": size, "x": 1}})
	}
	good := listed(t, newEntity(t, at(now)))
	for _, c := range []struct {
		name     string
		change   func(map[string]any)
		err      string
		keys     int
		packages int
		dropped  string
	}{
		{name: "no protocols", change: set("protocols", nil), keys: 1},
		{name: "a protocol that no client can parse", change: set("protocols", []string{"4.0,5.0"}), err: "4.0,5.0"},
		{name: "many protocols", change: set("protocols", strings.Split(strings.Repeat("5.0 ", maxProtocols+1), " ")), err: "protocols"},
		{name: "another platform", change: set("arch", "arm64"), err: `"linux_arm64", but linux_amd64`},
		{name: "a short checksum", change: set("shasum", "abcd"), err: "checksum"},
		{name: "no checksum", change: set("shasum", strings.Repeat("xy", 32)), err: "checksum"},
		{name: "a path", change: set("filename", "../x.zip"), err: "file name"},
		{name: "two fields", change: set("filename", "x y.zip"), err: "file name"},
		{name: "no name", change: set("filename", nil), err: "file name"},
		{name: "no URL of the sums", change: set("shasums_url", nil), keys: 1},
		{name: "a file", change: set("download_url", "file:///etc/passwd"), err: "download_url: want http"},
		{name: "no host", change: set("shasums_url", "https:///x"), err: "shasums_url: want http"},
		{name: "not a URL", change: set("shasums_signature_url", "https://secret:secret secret@x/"), err: "cannot be parsed"},
		{name: "a long URL", change: set("download_url", "/"+strings.Repeat("x", maxURL)), err: "too long"},
		{name: "no keys", change: set("signing_keys", nil)},
		{name: "null keys", change: keys(nil, good, nil), keys: 1, dropped: "null"},
		{name: "broken keys", change: keys(Key{Armor: "x"}, good), keys: 1, dropped: "cannot be read: it is not armored"},
		{name: "many keys", change: keys(make([]any, maxKeys+1)...), err: "keys"},
		{name: "a long field", change: keys(Key{Armor: good.Armor, Source: strings.Repeat("x", maxText+1)}), dropped: "too long"},
		{name: "packages", change: packages([]string{zh, "h1:x"}, 1), keys: 1, packages: 1},
		{name: "null packages", change: set("packages", nil), keys: 1},
		{name: "packages of another archive", change: packages([]string{other}, 1), keys: 1, dropped: "packages"},
		{name: "packages without zh", change: packages([]string{"h1:x"}, 1), keys: 1, dropped: "packages"},
		{name: "packages without size", change: packages([]string{zh}, 0), keys: 1, dropped: "packages"},
		{name: "packages that are none", change: set("packages", "x"), keys: 1, dropped: "packages"},
		{name: "keys that are none", change: set("signing_keys", "x"), err: "cannot unmarshal"},
		{name: "too long", change: set("x", strings.Repeat("x", MaxDownload)), err: "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := ParseDownload(downloadOf(t, c.change), base, linux)
			if c.err != "" {
				if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "secret") {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if dropped := strings.Join(d.Dropped, "\n"); len(d.Keys) != c.keys || len(d.Packages) != c.packages ||
				!strings.Contains(dropped, c.dropped) || c.dropped == "" && dropped != "" {
				t.Errorf("%d keys, %d packages, dropped %q", len(d.Keys), len(d.Packages), dropped)
			}
		})
	}
}

func FuzzDownload(f *testing.F) {
	f.Add(downloadOf(f, nil))
	f.Add(downloadOf(f, func(d map[string]any) {
		d["packages"] = map[string]any{"linux_amd64": ArchiveHashes{[]string{"zh:" + strings.Repeat("ab", 32)}, 1}}
	}))
	f.Fuzz(func(t *testing.T, document []byte) {
		d, err := ParseDownload(document, base, linux)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		sums := []byte(d.Archive.Digest.String() + "  " + d.Archive.File + "\n")
		r := &Release{Protocols: d.Protocols, Archives: []Archive{d.Archive}, Sums: sums, Packages: d.Packages, Unsigned: true}
		if _, err := r.Files(); err != nil {
			t.Fatalf("%+v is not one of a release: %v", d, err)
		}
	})
}

// If OpenTofu would refuse one archive of a release because of its packages, the release has no packages.
func TestPackagesOf(t *testing.T) {
	one, other := Archive{Platform: linux, Digest: modproxy.Digest{1}}, Archive{Platform: mac, Digest: modproxy.Digest{2}}
	facts := func(a Archive) ArchiveHashes { return ArchiveHashes{[]string{"zh:" + a.Digest.String()}, 1} }
	for name, c := range map[string]struct {
		packages map[string]ArchiveHashes
		kept     bool
	}{
		"all":     {map[string]ArchiveHashes{"linux_amd64": facts(one), "darwin_arm64": facts(other)}, true},
		"more":    {map[string]ArchiveHashes{"linux_amd64": facts(one), "darwin_arm64": facts(other), "linux_386": facts(one)}, true},
		"one":     {map[string]ArchiveHashes{"linux_amd64": facts(one)}, false},
		"another": {map[string]ArchiveHashes{"linux_amd64": facts(one), "darwin_arm64": facts(one)}, false},
	} {
		d := &Download{Archive: one, Packages: c.packages}
		if got := d.PackagesOf([]Archive{other, one}); (len(got) == len(c.packages)) != c.kept || !c.kept && got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
