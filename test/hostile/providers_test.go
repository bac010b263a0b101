//go:build linux

package hostile_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// providing is ordinary with bounds for providers that a test can reach.
const providing = ordinary + "providers: {max_received: 64MiB, max_unpacked: 64MiB, timeout: 3m}\n"

// published is a registry with versions of the provider case/toy, by their oddity.
func published(t testing.TB, versions map[string]string) *registrytest.Upstream {
	t.Helper()
	return registrytest.New(t, releases(versions))
}

func releases(versions map[string]string) *txtar.Archive {
	fixture := &txtar.Archive{}
	for version, knobs := range versions {
		fixture.Files = append(fixture.Files, txtar.File{Name: "providers/case/toy/" + version, Data: []byte(knobs)})
	}
	return fixture
}

// but is next with another answer for paths that end with end.
func but(next http.Handler, end string, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, end) {
			answer(w, r)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// The ends of the paths of requests to a registry.
const (
	ofVersions  = "/toy/versions"
	ofDownload  = "/download/linux/amd64"
	ofSums      = "_SHA256SUMS"
	ofSignature = ".sig"
	ofZip       = "_linux_amd64.zip"
)

// toyPath is the path of a request about the provider at modproxy.
func toyPath(host, rest string) string { return "/" + host + "/v1/providers/case/toy/" + rest }

func toyZip(host, version, platform string) string {
	return toyPath(host, fmt.Sprintf("%s/%s/terraform-provider-toy_%[1]s_%[2]s.zip", version, platform))
}

// installProvider installs a version as a client does. It returns the answer with the package, or the answer that refused it. An answer
// that breaks off has an error.
func (p *proxy) installProvider(host, version string) rig.Answer {
	p.t.Helper()
	a := p.ask(http.MethodGet, toyPath(host, version+ofDownload))
	if a.Status != http.StatusOK {
		return a
	}
	var said struct {
		URL string `json:"download_url"`
	}
	if err := json.Unmarshal(a.Body, &said); err != nil || said.URL != p.url+toyZip(host, version, "linux_amd64") {
		p.t.Errorf("the package of %s is said to be at %q, %v", host, said.URL, err)
	}
	a, _ = p.try(context.Background(), http.MethodGet, toyZip(host, version, "linux_amd64")) // a has the error
	return a
}

// refuseProvider checks that a version cannot be installed, with a matching reason.
func (p *proxy) refuseProvider(t testing.TB, host, version, why string) {
	t.Helper()
	if a := p.installProvider(host, version); a.Status < 400 && a.Err == nil || a.Status == http.StatusNotFound {
		t.Errorf("%v; want a refusal", a)
	}
	a := p.ask(http.MethodGet, toyZip(host, version, "linux_amd64"))
	if a.Status < 400 || a.Status == http.StatusNotFound || a.Status == http.StatusInternalServerError || !regexp.MustCompile(why).MatchString(a.Said()) {
		t.Errorf("%v; want words that match %q", a, why)
	}
}

// An invalid release is never served, and its packages are never served whole.
func TestHostileReleasesAreRefused(t *testing.T) {
	p := startOwn(t, providing)
	for knobs, why := range map[string]string{
		"zip=changed":                 `SHA-256`,
		"zip=truncated":               `zip`,
		"zip=text":                    `zip`,
		"size=1\nzip.truncate=100000": `unexpected EOF|broke`,
		"zip.status=503":              `503`,
		"sums=wrong":                  `SHA256SUMS`,
		"sums=missing":                `SHA256SUMS`,
		"sums=large":                  `larger`,
		"sums.truncate=20":            `unexpected EOF|broke`,
		"signature=wrong":             `signature`,
		"signature=armored":           `armored`,
		"signature=empty":             `signature`,
		"signature.status=404":        `404`,
		"keys=":                       `key`,
		"keys=null":                   `key`,
		"keys=broken":                 `key`,
		"keys=other,another":          `not made by a key that the registry lists`,
		"key=other\nkeys=publisher":   `not made by a key that the registry lists`,
	} {
		p.run(strings.ReplaceAll(knobs, "\n", ","), func(t *testing.T) {
			p.refuseProvider(t, stranger(t, published(t, map[string]string{"1.0.0": knobs})), "1.0.0", why)
		})
	}
	p.run("sums=blank", func(t *testing.T) { // clients crash on it
		host := stranger(t, published(t, map[string]string{"1.0.0": "sums=blank"}))
		if a := p.ask(http.MethodGet, toyPath(host, "1.0.0"+ofDownload)); a.Status != http.StatusConflict || !strings.Contains(a.Said(), "blank") {
			t.Error(a)
		}
	})
	p.run("good", func(t *testing.T) {
		host := stranger(t, published(t, map[string]string{"1.0.0": "sums=manifest"}))
		if a := p.installProvider(host, "1.0.0"); a.Status != http.StatusOK || a.Err != nil {
			t.Error(a)
		}
	})
	p.run("disk", func(t *testing.T) {
		if size := sizeOf(t, p.data); size > 4<<20 {
			t.Errorf("the data directory has %d bytes after releases that were nearly all refused", size)
		}
	})
}

// signed is a registry whose package of the provider is a zip, with the right checksum and a signature.
func signed(t testing.TB, zipped []byte) http.HandlerFunc {
	t.Helper()
	sum := fmt.Sprintf("%x", sha256.Sum256(zipped))
	const file = "terraform-provider-toy_1.0.0_linux_amd64.zip"
	sums := []byte(sum + "  " + file + "\n")
	signature, key, err := registrytest.Sign("publisher", sums)
	if err != nil {
		t.Fatal(err)
	}
	download, err := json.Marshal(map[string]any{
		"protocols": []string{"5.0"}, "os": "linux", "arch": "amd64", "filename": file, "shasum": sum,
		"download_url": "/x" + ofZip, "shasums_url": "/x" + ofSums, "shasums_signature_url": "/x" + ofSignature,
		"signing_keys": map[string]any{"gpg_public_keys": []any{map[string]string{"ascii_armor": key}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string][]byte{
		"terraform.json": []byte(`{"providers.v1":"/v1/providers/"}`),
		ofVersions:       []byte(`{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"}]}]}`),
		ofDownload:       download, ofSums: sums, ofSignature: signature, ofZip: zipped,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		for end, body := range answers {
			if strings.HasSuffix(r.URL.Path, end) {
				if bytes.HasPrefix(body, []byte("{")) {
					w.Header().Set("Content-Type", "application/json")
				}
				w.Write(body)
				return
			}
		}
		http.NotFound(w, r)
	}
}

// A zip is checked before any client receives all of it, with any signature.
func TestHostileZipsOfProvidersAreRefused(t *testing.T) {
	p := startOwn(t, providing)
	const program = "terraform-provider-toy_v1.0.0"
	cases := map[string][]byte{
		"dot-dot":     zipOf(t, nil, program, "../evil"),
		"backslash":   zipOf(t, nil, program, `..\evil`),
		"nul":         zipOf(t, nil, program, "a\x00b"),
		"newline":     zipOf(t, nil, program, "a\nb"),
		"link":        zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }, program),
		"device":      zipOf(t, func(h *zip.FileHeader) { h.SetMode(fs.ModeDevice | 0o666) }, program),
		"encrypted":   zipOf(t, func(h *zip.FileHeader) { h.Flags |= 1 }, program),
		"other-name":  bytes.Replace(zipOf(t, nil, program), []byte(program), []byte("terraform-provider-toy_v6.6.6"), 1),
		"overlapping": overlapping(t, 200),
		"no-program":  zipOf(t, nil, "main.tf"),
		"empty":       zipOf(t, nil),
		"no-bytes":    {},
		"html":        []byte("<html>log in first</html>"),
		"gzip":        tarGz(t, plainFile),
	}
	for name, bomb := range zeroBombs(t, 256<<20) {
		if strings.HasSuffix(name, ".zip") {
			cases["bomb-"+strings.ReplaceAll(name, "/", "-")] = bomb()
		}
	}
	for name, data := range cases {
		p.run(name, func(t *testing.T) { p.refuseProvider(t, stranger(t, signed(t, data)), "1.0.0", `invalid`) })
	}
	p.run("good", func(t *testing.T) {
		if a := p.installProvider(stranger(t, signed(t, zipOf(t, nil, program))), "1.0.0"); a.Status != http.StatusOK || a.Err != nil {
			t.Error(a)
		}
	})
	p.run("memory", func(t *testing.T) {
		if mib := p.resident() >> 10; mib > 200 && memoryIsBounded() {
			t.Errorf("modproxy took %d MiB of memory; want at most 200", mib)
		}
	})
}

// A published version never changes: its packages, for all platforms, and its signing keys.
func TestProvidersThatChange(t *testing.T) {
	p := startOwn(t, strings.Replace(providing, "\nlog:", "\ncache: {fresh: 1ms}\nlog:", 1))
	for name, changed := range map[string]map[string]string{
		"bytes":    {"1.0.0": "size=1"},
		"key":      {"1.0.0": "", "1.1.0": "key=another"},
		"unsigned": {"1.0.0": "", "1.1.0": "keys=\nsignature=empty"},
		"platform": {"1.0.0": "platforms=darwin_arm64"},
	} {
		p.run(name, func(t *testing.T) {
			u := published(t, map[string]string{"1.0.0": ""})
			host := stranger(t, u)
			first := p.installProvider(host, "1.0.0")
			if first.Status != http.StatusOK || first.Err != nil {
				t.Fatal(first)
			}
			if err := u.LoadArchive(releases(changed)); err != nil {
				t.Fatal(err)
			}
			p.ask(http.MethodGet, toyPath(host, "versions"))
			if a := p.installProvider(host, "1.0.0"); a.Status != http.StatusOK || !bytes.Equal(a.Body, first.Body) {
				t.Errorf("what was kept: %v", a)
			}
			switch name {
			case "bytes": // of a platform that was not requested yet
				a, _ := p.try(context.Background(), http.MethodGet, toyZip(host, "1.0.0", "darwin_arm64"))
				if a.Status == http.StatusOK && a.Err == nil {
					t.Errorf("other bytes than the release had are served: %v", a)
				}
				if a = p.ask(http.MethodGet, toyZip(host, "1.0.0", "darwin_arm64")); !strings.Contains(a.Said(), "ledger drift") {
					t.Errorf("%v; want words about drift", a)
				}
			case "key":
				p.refuseProvider(t, host, "1.1.0", `signed by the key .*ledger accept`)
			case "unsigned":
				p.refuseProvider(t, host, "1.1.0", `key|sign`)
			}
		})
	}
}
