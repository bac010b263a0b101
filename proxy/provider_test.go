package proxy_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/proxy"
	"github.com/modproxy/modproxy/release"
)

var (
	toy       = modproxy.NewProvider(host, "acme", "toy")
	linux     = modproxy.Platform{OS: "linux", Arch: "amd64"}
	darwin    = modproxy.Platform{OS: "darwin", Arch: "arm64"}
	toyZip    = strings.Repeat("a zip archive", 20_000)
	toySums   = fmt.Sprintf("%x  toy_darwin.zip\n%x  toy_linux.zip\r\n", sha256.Sum256([]byte("mac")), sha256.Sum256([]byte(toyZip)))
	providers = "/" + host + "/v1/providers/acme/toy"
	zipPath   = providers + "/1.0.0/linux_amd64/terraform-provider-toy_1.0.0_linux_amd64.zip"
	mirrors   = "/-/mirror/" + host + "/acme/toy"
)

// toys is a registry with one provider.
type toys struct {
	t       testing.TB
	kept    bool  // the archive
	wait    bool  // the release never comes
	err     error // of a question for the release
	errZip  error // of a question for the archive
	release release.Release
	opened  []string // the versions whose packages were asked for
	located []string
	arrival modproxy.Partial
	content modproxy.Body // of the archive; nil for toyZip
}

func newToys(t testing.TB) *toys {
	return &toys{t: t, kept: true, release: release.Release{
		Protocols: []string{"5.0"}, Sums: []byte(toySums), Signature: []byte{1, 0, 2}, Unsigned: true,
		Archives: []release.Archive{
			{Platform: darwin, File: "toy_darwin.zip", Digest: sha256.Sum256([]byte("mac"))},
			{Platform: linux, File: "toy_linux.zip", Digest: sha256.Sum256([]byte(toyZip)), URL: "https://elsewhere.example/toy.zip"},
		},
	}}
}

func (p *toys) Versions(_ context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	if m != toy {
		return nil, modproxy.ErrNotFound
	}
	return modproxy.ParseProviderVersions([]byte(`{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"},{"os":"darwin","arch":"arm64"}]},` +
		`{"version":"1.1.0-rc1"}],"warnings":["old"]}`))
}

func (p *toys) Location(_ context.Context, v modproxy.Ref) (modproxy.Location, error) {
	p.located = append(p.located, v.FullVersion())
	return modproxy.Location{Kept: p.kept}, p.errZip
}

func (p *toys) Package(ctx context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	p.opened = append(p.opened, v.FullVersion())
	switch v {
	case toy.At("1.0.0"):
		if p.wait {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		if p.err != nil {
			return nil, p.err
		}
		return p.release.Pack(p.t.TempDir())
	case toy.At("1.0.0").ForPlatform(linux):
		if p.errZip != nil {
			return nil, p.errZip
		}
		content := p.content
		if content == nil {
			content = nopCloser{strings.NewReader(toyZip)}
		}
		return &modproxy.Package{Body: content, Digest: sha256.Sum256([]byte(toyZip)), Size: int64(len(toyZip)), Partial: p.arrival}, nil
	}
	return nil, modproxy.ErrNotFound
}

func (p *toys) handler(change func(*proxy.Config)) http.Handler {
	return newHandler(p.t, func(c *proxy.Config, _ *scripted) {
		c.Registry = p
		if change != nil {
			change(c)
		}
	})
}

func TestProviderVersions(t *testing.T) {
	h := newToys(t).handler(nil)
	for _, path := range []string{providers + "/versions", strings.ToUpper("/"+host) + "/v1/providers/ACME/toy/versions"} {
		res := get(h, path)
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" || res.Header.Get("Cache-Status") == "" {
			t.Errorf("%s: %s, %v", path, res.Status, res.Header)
		}
		const want = `{"versions":[{"version":"1.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"},{"os":"darwin","arch":"arm64"}]},{"version":"1.1.0-rc1"}],"warnings":["old"]}`
		if got := body(t, res); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
	if res := get(h, providers+"/versions", "Accept-Encoding", "gzip"); res.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v", res.Header)
	}
	if res := get(h, "/v1/providers/acme/toy/versions", "Host", host); res.StatusCode != 200 {
		t.Errorf("under the name of the registry: %s", res.Status)
	}
}

// The answer for a package has the registry's data with the URLs of this proxy.
func TestProviderDownload(t *testing.T) {
	p := newToys(t)
	p.release.Packages = map[string]release.ArchiveHashes{"linux_amd64": {Hashes: []string{fmt.Sprintf("zh:%x", sha256.Sum256([]byte(toyZip)))}, Size: 9}}
	p.release.Packages["darwin_arm64"] = release.ArchiveHashes{Hashes: []string{fmt.Sprintf("zh:%x", sha256.Sum256([]byte("mac")))}, Size: 3}
	h := p.handler(func(c *proxy.Config) { c.PublicURL = "https://modproxy.example/at" })
	res := get(h, providers+"/1.0.0/download/linux/amd64")
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(toyZip)))
	want := `{"protocols":["5.0"],"os":"linux","arch":"amd64","filename":"toy_linux.zip",` +
		`"download_url":"https://modproxy.example/at` + zipPath + `",` +
		`"shasums_url":"https://modproxy.example/at` + providers + `/1.0.0/SHA256SUMS",` +
		`"shasums_signature_url":"https://modproxy.example/at` + providers + `/1.0.0/SHA256SUMS.sig",` +
		`"shasum":"` + digest + `","signing_keys":{"gpg_public_keys":[]},` +
		`"packages":{"darwin_arm64":{"hashes":["zh:` + fmt.Sprintf("%x", sha256.Sum256([]byte("mac"))) + `"],"package_size":3},` +
		`"linux_amd64":{"hashes":["zh:` + digest + `"],"package_size":9}}}` + "\n"
	if diff := cmp.Diff(want, body(t, res)); diff != "" || res.StatusCode != 200 || res.Header.Get("Cache-Status") != "modproxy; hit" {
		t.Errorf("%s, %v: %s", res.Status, res.Header, diff)
	}
	if diff := cmp.Diff([]string{"1.0.0+modproxy.platform.linux-amd64"}, p.located); diff != "" {
		t.Errorf("the package is not fetched: %s", diff)
	}
	if res := get(h, providers+"/1.0.0/download/linux/amd64", "If-None-Match", res.Header.Get("Etag")); res.StatusCode != 304 {
		t.Errorf("a client that has it: %s", res.Status)
	}
}

func TestProviderSums(t *testing.T) {
	h := newToys(t).handler(nil)
	for file, want := range map[string]string{"SHA256SUMS": toySums, "SHA256SUMS.sig": "\x01\x00\x02"} {
		if res := get(h, providers+"/1.0.0/"+file); res.StatusCode != 200 || res.ContentLength != int64(len(want)) || body(t, res) != want {
			t.Errorf("%s: %s, %d bytes", file, res.Status, res.ContentLength)
		}
	}
}

func TestProviderPackage(t *testing.T) {
	p := newToys(t)
	h := p.handler(nil)
	res := get(h, zipPath)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/zip" || res.Header.Get("Accept-Ranges") != "bytes" || body(t, res) != toyZip {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	if res := get(h, zipPath, "Range", "bytes=2-4"); res.StatusCode != 206 || body(t, res) != toyZip[2:5] {
		t.Errorf("a part: %s", res.Status)
	}
	if other := get(h, zipPath, "If-None-Match", res.Header.Get("Etag")); other.StatusCode != 304 {
		t.Errorf("a client that has it: %s", other.Status)
	}
	if res := do(h, "HEAD", zipPath); res.StatusCode != 200 || res.Header.Get("Content-Length") != fmt.Sprint(len(toyZip)) {
		t.Errorf("HEAD: %s, %v", res.Status, res.Header)
	}
}

// HEAD for a package that is not cached starts its download, and does not wait. The answer has no length: with Accept-Ranges, clients
// would take it for an empty file.
func TestProviderHeadDoesNotWait(t *testing.T) {
	p := newToys(t)
	p.kept = false
	res := do(p.handler(nil), "HEAD", zipPath)
	if res.StatusCode != 200 || res.Header.Get("Content-Length") != "" || res.Header.Get("Accept-Ranges") != "" || res.Header.Get("Etag") == "" {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	if diff := cmp.Diff([]string{"1.0.0"}, p.opened); diff != "" || len(p.located) != 1 {
		t.Errorf("it waited: %s", diff)
	}
}

// arriving is a download in progress that may fail.
type arriving struct{ modproxy.Partial }

// ending is a package that ends in the middle.
type ending struct{ io.ReadSeeker }

func (b ending) Read(p []byte) (int, error) {
	if at, _ := b.Seek(0, io.SeekCurrent); at > 100_000 {
		return 0, fmt.Errorf("%w: it is another one", modproxy.ErrChanged)
	}
	return b.ReadSeeker.Read(p[:min(len(p), 1000)])
}

func (ending) Verify(context.Context) error { return nil }

func (ending) Close() error { return nil }

// A package that fails verification while it is sent is cut off.
func TestProviderArrives(t *testing.T) {
	p := newToys(t)
	p.arrival = arriving{}
	res := get(p.handler(nil), zipPath)
	if res.Header.Get("Cache-Status") != "modproxy; fwd=miss; stored" || res.Header.Get("Content-Length") != fmt.Sprint(len(toyZip)) || body(t, res) != toyZip {
		t.Errorf("%s, %v", res.Status, res.Header)
	}
	if res := get(p.handler(nil), zipPath, "Range", "bytes=100000-"); res.StatusCode != 206 || body(t, res) != toyZip[100000:] {
		t.Errorf("a part: %s", res.Status)
	}
	p.content = ending{strings.NewReader(toyZip)}
	defer func() {
		if recover() != http.ErrAbortHandler {
			t.Error("the client takes it for whole")
		}
	}()
	get(p.handler(nil), zipPath)
}

// recorded has the hashes of one package.
type recorded struct{ modproxy.Record }

func (r recorded) Lookup(_ context.Context, v modproxy.Ref) (modproxy.Record, error) {
	if v != r.Ref {
		return modproxy.Record{}, fs.ErrNotExist
	}
	return r.Record, nil
}

func TestMirror(t *testing.T) {
	p := newToys(t)
	known := recorded{modproxy.Record{Ref: toy.At("1.0.0").ForPlatform(linux), Sum: modproxy.NewSum(sha256.Sum256([]byte(toyZip)))}}
	known.Hashes = "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
	h := p.handler(func(c *proxy.Config) { c.Records = known })
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(toyZip)))
	mac := fmt.Sprintf("%x", sha256.Sum256([]byte("mac")))
	for file, want := range map[string]string{
		"index.json": `{"versions":{"1.0.0":{},"1.1.0-rc1":{}}}`,
		"1.0.0.json": `{"archives":{"darwin_arm64":{"url":"` + strings.ReplaceAll(zipPath, "linux_amd64", "darwin_arm64") + `","hashes":["zh:` + mac + `"]},` +
			`"linux_amd64":{"url":"` + zipPath + `","hashes":["zh:` + digest + `","` + string(known.Hashes) + `"]}}}`,
	} {
		res := get(h, mirrors+"/"+file)
		if diff := cmp.Diff(want+"\n", body(t, res)); res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" || diff != "" {
			t.Errorf("%s: %s, %v: %s", file, res.Status, res.Header, diff)
		}
	}
	if len(p.located) > 0 {
		t.Errorf("packages are fetched that nobody wants: %v", p.located)
	}

	// The registry states the hashes of packages that were not fetched. For others the record counts.
	const stated = "h1:uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="
	p.release.Packages = map[string]release.ArchiveHashes{
		"darwin_arm64": {Hashes: []string{"zh:" + mac, stated}, Size: 3}, "linux_amd64": {Hashes: []string{"zh:" + digest, stated}, Size: 9},
	}
	for records, want := range map[bool]int{true: 1, false: 2} {
		h = p.handler(func(c *proxy.Config) {
			if records {
				c.Records = known
			}
		})
		got := body(t, get(h, mirrors+"/1.0.0.json"))
		if strings.Count(got, stated) != want || strings.Contains(got, string(known.Hashes)) != records || strings.Count(got, "zh:"+mac) != 1 {
			t.Errorf("hashes that the registry states, with records %v: %s", records, got)
		}
	}
	p.release.Packages = nil
	h = p.handler(func(c *proxy.Config) { c.Offline = true })
	p.release.Archives = append(p.release.Archives, release.Archive{Platform: modproxy.Platform{OS: "plan9", Arch: "arm"}, File: "toy_linux.zip", Digest: p.release.Archives[1].Digest})
	if got := body(t, get(h, mirrors+"/1.0.0.json")); strings.Contains(got, "plan9") || !strings.Contains(got, "darwin") {
		t.Errorf("offline: %s", got)
	}
	known.Sum = modproxy.NewSum([32]byte{1}) // another package had these hashes
	h = p.handler(func(c *proxy.Config) { c.Records = known })
	if got := body(t, get(h, mirrors+"/1.0.0.json")); strings.Contains(got, "h1:") {
		t.Errorf("hashes of another package: %s", got)
	}
}

// Clients give up after ten seconds, and repeat the request if the answer says so.
func TestProviderPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newToys(t)
		p.wait = true
		for _, path := range []string{providers + "/1.0.0/download/linux/amd64", providers + "/1.0.0/SHA256SUMS", mirrors + "/1.0.0.json"} {
			began := time.Now()
			res := get(p.handler(nil), path)
			if got := body(t, res); !strings.Contains(got, "within 8s; the request continues") {
				t.Errorf("%s: %s", path, got)
			}
			if took := time.Since(began); res.StatusCode != 503 || res.Header.Get("Retry-After") != "1" || took > 9*time.Second || took < 5*time.Second {
				t.Errorf("%s: %s after %v, %v", path, res.Status, took, res.Header)
			}
		}
	})
}

// Clients of the registry protocol crash at a blank line of the checksums; clients of the mirror protocol do not.
func TestBlankLine(t *testing.T) {
	p := newToys(t)
	p.release.Sums = []byte(strings.Replace(toySums, "\n", "\n\n", 1))
	h := p.handler(nil)
	if res := get(h, providers+"/1.0.0/download/linux/amd64"); res.StatusCode != 409 || !strings.Contains(body(t, res), "line 2 is blank") {
		t.Errorf("the registry protocol: %s", res.Status)
	}
	if res := get(h, mirrors+"/1.0.0.json"); res.StatusCode != 200 {
		t.Errorf("the mirror: %s", res.Status)
	}
}

func TestProviderStatus(t *testing.T) {
	soon := &modproxy.RetryLater{After: time.Now().Add(2 * time.Second), Err: errors.New("busy")}
	failed := &modproxy.FetchFailed{Time: time.Now(), Again: time.Now().Add(time.Minute), Err: modproxy.ErrUnavailable}
	for _, c := range []struct {
		path     string
		err, zip error
		status   int
	}{
		{providers + "/1.0.0/download/linux/amd64", modproxy.ErrDenied, nil, 409},
		{providers + "/1.0.0/download/linux/amd64", nil, modproxy.ErrDenied, 409},
		{providers + "/1.0.0/download/linux/amd64", modproxy.ErrChanged, nil, 409},
		{providers + "/1.0.0/download/linux/amd64", modproxy.ErrNotFound, nil, 404},
		{providers + "/1.0.0/download/linux/amd64", modproxy.ErrUnavailable, nil, 502},
		{providers + "/1.0.0/download/linux/amd64", soon, nil, 503},
		{providers + "/1.0.0/download/linux/amd64", failed, nil, 424},
		{providers + "/1.0.0/download/linux/amd64", nil, failed, 424},
		{providers + "/1.0.0/download/linux/amd64", nil, &modproxy.NotCached{}, 424},
		{providers + "/1.0.0/download/plan9/mips", nil, nil, 404},
		{providers + "/2.0.0/download/linux/amd64", nil, nil, 404},
		{providers + "/1.0.0/SHA256SUMS", modproxy.ErrDenied, nil, 409},
		{providers + "/1.0.0/SHA256SUMS.sig", modproxy.ErrUnavailable, nil, 502},
		{zipPath, modproxy.ErrDenied, nil, 409},
		{zipPath, nil, modproxy.ErrDenied, 409},
		{zipPath, nil, modproxy.ErrUnavailable, 502},
		{strings.Replace(zipPath, "linux", "plan9", 2), nil, nil, 404},
		{mirrors + "/1.0.0.json", modproxy.ErrDenied, nil, 409},
		{mirrors + "/1.0.0.json", modproxy.ErrNotFound, nil, 404},
		{mirrors + "/1.0.0.json", soon, nil, 503},
		{"/-/mirror/" + host + "/acme/other/index.json", nil, nil, 404},
		{"/-/mirror/foreign.example/acme/toy/index.json", nil, nil, 404},
		{"/foreign.example/v1/providers/acme/toy/versions", nil, nil, 409},
		{"/" + host + "/v1/providers/-/toy/versions", nil, nil, 404},
	} {
		p := newToys(t)
		p.err, p.errZip = c.err, c.zip
		res := get(p.handler(nil), c.path)
		var answer struct{ Errors []string }
		if err := json.Unmarshal([]byte(body(t, res)), &answer); res.StatusCode != c.status || err != nil || len(answer.Errors) != 1 {
			t.Errorf("%s, %v, %v: %s, %v", c.path, c.err, c.zip, res.Status, err)
		}
		if again := res.Header.Get("Retry-After"); (again != "") != (c.status == 503) {
			t.Errorf("%s: Retry-After %q", c.path, again)
		}
	}
}
