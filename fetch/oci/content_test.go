package oci_test

import (
	"bytes"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
)

const modulePackage = "application/vnd.opentofu.modulepkg"

// Artifacts that OpenTofu does not install are refused, and so are hostile archives.
func TestArtifacts(t *testing.T) {
	registry := start(t, t.TempDir(), "")
	s := front(t, registry)
	blob := func(mediaType string, data []byte) map[string]any {
		t.Helper()
		d, err := registry.Blob("corp/vpc", mediaType, data)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	good, other := blob("archive/zip", zipped(t, "main.tf", "")), blob("archive/zip", zipped(t, "other.tf", ""))
	text := blob("text/markdown", []byte("# vpc"))
	type layers = []map[string]any
	for tag, test := range map[string]struct {
		artifactType string
		layers       layers
		says         string // part of the error; empty for none
	}{
		"good":       {modulePackage, layers{good}, ""},
		"with-text":  {modulePackage, layers{text, good}, ""},
		"of-a-type":  {"application/vnd.opentofu.provider", layers{good}, `artifactType is "application/vnd.opentofu.provider"`},
		"no-type":    {"", layers{good}, `artifactType is ""`},
		"two":        {modulePackage, layers{good, other}, "2 of its 2 layers have the type archive/zip"},
		"twice":      {modulePackage, layers{good, good}, "2 of its 2 layers"},
		"text":       {modulePackage, layers{text}, "0 of its 1 layers"},
		"no-zip":     {modulePackage, layers{blob("archive/zip", []byte("PK"))}, "archive:"},
		"empty":      {modulePackage, layers{blob("archive/zip", nil)}, "archive: it is empty"},
		"outside":    {modulePackage, layers{blob("archive/zip", zipped(t, "../../etc/x.tf", ""))}, "../../etc/x.tf"},
		"too-large":  {modulePackage, layers{blob("archive/zip", make([]byte, 1<<20+1))}, "fetch.max_received"},
		"many-bytes": {modulePackage, layers{blob("archive/zip", zipped(t, "main.tf", strings.Repeat(" ", 2<<20)))}, "fetch.max_unpacked"},
	} {
		t.Run(tag, func(t *testing.T) {
			if _, err := registry.PushLayers("corp/vpc", tag, test.artifactType, test.layers...); err != nil {
				t.Fatal(err)
			}
			_, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag="+tag)
			checkInvalid(t, err, test.says)
		})
	}
	digest, err := registry.PushLayers("corp/vpc", "x", modulePackage, good)
	if err != nil {
		t.Fatal(err)
	}
	const indexType = "application/vnd.oci.image.index.v1+json"
	index := map[string]any{"schemaVersion": 2, "mediaType": indexType, "artifactType": modulePackage,
		"manifests": []any{map[string]any{"mediaType": registrytest.ManifestType, "digest": digest, "size": 1}}}
	if _, err := registry.Manifest("corp/vpc", "index", indexType, index); err != nil {
		t.Fatal(err)
	}
	_, err = get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag=index")
	checkInvalid(t, err, `its type is "`+indexType+`"`)
	for _, absent := range []string{"corp/vpc?tag=2.0.0", "corp/none?tag=1.0.0", "corp/vpc?digest=sha256:" + strings.Repeat("0a", 32)} {
		if _, err := get(t, newGetter(t), "oci://"+s.host+"/"+absent); !errors.Is(err, modproxy.ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", absent, err)
		}
	}
}

// checkInvalid checks that err is ErrInvalid with a text, or nil if says is empty.
func checkInvalid(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" && err != nil || says != "" && (!errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), says)) {
		t.Errorf("error %v, want %q", err, says)
	}
}

// changing returns a site in front of a registry that changes the answers about manifests or blobs.
func changing(t *testing.T, r *registrytest.OCIRegistry, part string, change func(h http.Header, body []byte) []byte) *site {
	s := front(t, r)
	behind := s.handle
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, part) {
			behind(w, r)
			return
		}
		answer := httptest.NewRecorder()
		behind(answer, r)
		answer.Header().Del("Content-Length")
		body := change(answer.Header(), answer.Body.Bytes())
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		w.Write(body)
	}
	return s
}

// A proxy or store that changes a manifest or an archive is noticed.
func TestChangedAnswers(t *testing.T) {
	registry := start(t, t.TempDir(), "")
	digest := push(t, registry, "corp/vpc", "1.0.0", zipped(t, "main.tf", "# one"))
	flip := func(_ http.Header, body []byte) []byte { body[len(body)/2] ^= 1; return body }
	longer := func(_ http.Header, body []byte) []byte { return append(body, ' ') }
	shorter := func(_ http.Header, body []byte) []byte { return body[:len(body)-1] }
	without := func(change func(http.Header, []byte) []byte) func(http.Header, []byte) []byte {
		return func(h http.Header, body []byte) []byte {
			h.Del("Docker-Content-Digest")
			return change(h, body)
		}
	}
	bad := func(_ http.Header, _ []byte) []byte { return []byte(`{"mediaType":1}`) }
	named := func(digest string) func(http.Header, []byte) []byte {
		return func(h http.Header, body []byte) []byte { h.Set("Docker-Content-Digest", digest); return body }
	}
	for name, test := range map[string]struct {
		part, query string
		change      func(http.Header, []byte) []byte
		says        string
	}{
		"manifest by digest":           {"/manifests/", "digest=" + digest, flip, "its sha256 is"},
		"longer manifest by digest":    {"/manifests/", "digest=" + digest, longer, "its sha256 is"},
		"manifest by digest, unnamed":  {"/manifests/", "digest=" + digest, without(flip), "its sha256 is"},
		"manifest by tag":              {"/manifests/", "tag=1.0.0", flip, "its sha256 is"},
		"bad manifest by tag, unnamed": {"/manifests/", "tag=1.0.0", without(bad), "manifest: json"},
		"digest of another kind":       {"/manifests/", "tag=1.0.0", named("md5:" + strings.Repeat("0a", 16)), "answered with the digest"},
		"large manifest":               {"/manifests/", "tag=1.0.0", func(_ http.Header, _ []byte) []byte { return make([]byte, 4<<20+1) }, "larger than allowed"},
		"blob":                         {"/blobs/", "tag=1.0.0", flip, "its sha256 is"},
		"longer blob":                  {"/blobs/", "tag=1.0.0", longer, "its manifest says"},
		"shorter blob":                 {"/blobs/", "tag=1.0.0", shorter, "its manifest says"},
		"page instead of a blob":       {"/blobs/", "tag=1.0.0", func(_ http.Header, _ []byte) []byte { return []byte("<html>") }, "its manifest says"},
	} {
		t.Run(name, func(t *testing.T) {
			s := changing(t, registry, test.part, test.change)
			_, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?"+test.query)
			checkInvalid(t, err, test.says)
			if isPinned := strings.HasPrefix(test.query, "digest"); errors.As(err, new(*modproxy.PermanentContent)) != isPinned {
				t.Errorf("permanent: %v, want %v", !isPinned, isPinned)
			}
		})
	}
}

// A registry may use SHA-512.
func TestSHA512(t *testing.T) {
	archive := zipped(t, "main.tf", "")
	layer := map[string]any{"mediaType": "archive/zip", "digest": fmt.Sprintf("sha512:%x", sha512.Sum512(archive)), "size": len(archive)}
	manifest, err := json.Marshal(map[string]any{"mediaType": registrytest.ManifestType, "artifactType": modulePackage, "layers": []any{layer}})
	if err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("sha512:%x", sha512.Sum512(manifest))
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", registrytest.ManifestType)
		switch r.URL.Path {
		case "/v2/corp/vpc/manifests/1.0.0", "/v2/corp/vpc/manifests/" + digest:
			w.Header().Set("Docker-Content-Digest", digest)
			w.Write(manifest)
		case "/v2/corp/vpc/blobs/" + layer["digest"].(string):
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(archive))
		default:
			http.NotFound(w, r)
		}
	})
	p, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag=1.0.0")
	if err != nil || "sha512:"+p.Source.Commit != digest {
		t.Fatalf("%+v, error %v", p, err)
	}
	again, err := get(t, newGetter(t), modproxy.Record{Source: p.Source}.Location().String())
	if err != nil || again.Sum != p.Sum {
		t.Errorf("again: %+v, error %v", again, err)
	}
}

// A failure may pass, and an archive that breaks off is requested again.
func TestRetries(t *testing.T) {
	registry := start(t, t.TempDir(), "")
	push(t, registry, "corp/vpc", "1.0.0", zipped(t, "main.tf", ""))
	s := front(t, registry)
	behind, blobs := s.handle, 0
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			if blobs++; blobs == 1 {
				w.Header().Set("Content-Length", "1000")
				io.WriteString(w, "PK")
				return
			}
		}
		behind(w, r)
	}
	if _, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag=1.0.0"); err != nil || blobs != 2 {
		t.Errorf("after %d requests for the archive: error %v", blobs, err)
	}
	s.handle = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	if _, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag=1.0.0"); !errors.As(err, new(*modproxy.RetryLater)) {
		t.Errorf("error %v, want RetryLater", err)
	}
}

func TestLocations(t *testing.T) {
	g := newGetter(t)
	sum := strings.Repeat("0a", 32)
	for location, says := range map[string]string{
		"oci://127.0.0.1:5000/a":                            "",
		"oci://127.0.0.1/a/b-c__d.e/f?tag=v1.0_x-Y":         "",
		"oci://127.0.0.1/a//b?digest=sha256:" + sum:         "",
		"oci::oci://127.0.0.1/a":                            "",
		"oci://127.0.0.1/a?digest=sha512:" + sum + sum:      "",
		"oci::https://127.0.0.1/a":                          "want oci://host/repository",
		"oci://u@127.0.0.1/a":                               "user information",
		"oci://127.0.0.1/A":                                 "is not the name of a repository",
		"oci://127.0.0.1/a/":                                "is not the name of a repository",
		"oci://127.0.0.1":                                   "is not the name of a repository",
		"oci://127.0.0.1/../a":                              "is not the name of a repository",
		"oci://127.0.0.1/a%2f..%2fb":                        "is not the name of a repository",
		"oci://127.0.0.1/a___b":                             "is not the name of a repository",
		"oci://127.0.0.1/" + strings.Repeat("a", 256):       "is not the name of a repository",
		"oci://127.0.0.1/a?tag=":                            "is not a tag",
		"oci://127.0.0.1/a?tag=-x":                          "is not a tag",
		"oci://127.0.0.1/a?tag=1.0.0%2bb":                   "is not a tag",
		"oci://127.0.0.1/a?tag=..%2f..":                     "is not a tag",
		"oci://127.0.0.1/a?tag=" + strings.Repeat("a", 129): "is not a tag",
		"oci://127.0.0.1/a?digest=" + sum:                   "is not a digest",
		"oci://127.0.0.1/a?digest=sha256:" + sum + "0a":     "is not a digest",
		"oci://127.0.0.1/a?digest=md5:" + sum[:32]:          "is not a digest",
		"oci://127.0.0.1/a?tag=1&tag=2":                     "more than one tag or digest",
		"oci://127.0.0.1/a?tag=1&digest=sha256:" + sum:      "more than one tag or digest",
		"oci://127.0.0.1/a?archive=zip":                     "nothing but tag or digest",
		"oci://127.0.0.1/a?tag=%zz":                         "cannot be read",
		"oci://127.0.0.1:0/a":                               "is not the host",
		"oci://0x7f.1/a":                                    "is not the host",
	} {
		checkInvalid(t, g.Check(t.Context(), source(t, location)), says)
	}
	if err := g.Check(t.Context(), source(t, "oci://169.254.169.254/a")); !errors.Is(err, modproxy.ErrDenied) {
		t.Errorf("an address that is not allowed: error %v", err)
	}
	odd := source(t, "oci://127.0.0.1/a?tag=1")
	odd.Commit = "0a"
	checkInvalid(t, g.Check(t.Context(), odd), "is not the digest")
}
