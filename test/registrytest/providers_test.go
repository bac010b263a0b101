package registrytest_test

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/test/rig"
)

// knobs returns a fixture with a version of acme/toy for each entry, beginning with 1.0.0.
func knobs(list []string) *txtar.Archive {
	fixture := &txtar.Archive{}
	for i, lines := range list {
		name := fmt.Sprintf("providers/acme/toy/1.%d.0", i)
		fixture.Files = append(fixture.Files, txtar.File{Name: name, Data: []byte(lines + "\n")})
	}
	return fixture
}

// install makes a client install a version of acme/toy from u, and returns its output as one line.
func install(t *testing.T, u *registrytest.Upstream, program, version string) (said, lock string, err error) {
	t.Helper()
	dir := t.TempDir()
	toy := fmt.Sprintf("toy = { source = %q, version = %q }", u.Host+"/acme/toy", version)
	main := "terraform {\n  required_providers {\n    " + toy + "\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "init", "-no-color", "-input=false")
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TF_CLI_CONFIG_FILE=" + os.DevNull, "CHECKPOINT_DISABLE=1",
		"SSL_CERT_FILE=" + u.CAFile,
	}
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(filepath.Join(dir, ".terraform.lock.hcl"))
	if err == nil && readErr != nil {
		t.Fatal(readErr)
	}
	said = strings.NewReplacer("│", "", "╷", "", "╵", "").Replace(string(out))
	return strings.Join(strings.Fields(said), " "), string(text), err
}

var (
	h1 = regexp.MustCompile(`"h1:[^"]{44}"`)
	zh = regexp.MustCompile(`"zh:[0-9a-f]{64}"`)
)

// Real clients install correct fixtures, and detect the faults of others.
func TestProviderClients(t *testing.T) {
	const unsigned = "from unknown issuer"
	tests := []struct{ knobs, refused string }{
		{"", ""},
		{"zip=directories\nsize=2\nkey=expired", ""},
		{"keys=another,publisher", ""},
		{"protocols=[]", ""},
		{"zip=changed", "archive has incorrect checksum"},
		{"zip=truncated", "not a valid zip file"},
		{"zip=text", "not a valid zip file"},
		{"sums=wrong", "checksum list has unexpected SHA-256 hash"},
		{"sums=missing", "checksum list has no SHA-256 hash"},
		{"sums=blank", "index out of range"},
		{"signature=wrong", "error checking signature"},
		{"signature=armored", "error checking signature"},
		{"signature=empty", unsigned},
		{"key=another\nkeys=publisher", unsigned},
		{"keys=", unsigned},
		{"keys=null", "nil pointer dereference"},
		{"keys=broken,publisher", "error decoding signing key"},
		{`protocols=["4.0,5.0"]`, "4.0,5.0"},
		{"provider-download.status=409", "409 Conflict"},
		{"sums.status=404", "404"},
		{"signature.status=403", "403"},
		{"zip.status=401", "401"},
		{"zip.truncate=100", "stream error"},
		{"platforms=plan9_mips", "have a package available for your current platform"},
	}
	var list []string
	for _, test := range tests {
		list = append(list, test.knobs)
	}
	fixture := knobs(list)
	fixture.Files = append(fixture.Files, txtar.File{Name: "providers/acme/toy/warnings", Data: []byte("toy is old.\n")})
	u := registrytest.New(t, fixture)
	zips := len(registrytest.Platforms())
	clients := rig.Clients(t)
	for name, program := range clients {
		t.Run(name, func(t *testing.T) {
			for i, test := range tests {
				if len(clients) > 1 && !rig.Long() && test.refused != "" && (i%2 == 0) != (name == "tofu") {
					continue // the other client refuses it
				}
				said, lock, err := install(t, u, program, fmt.Sprintf("1.%d.0", i))
				switch {
				case test.refused != "":
					if err == nil || !regexp.MustCompile(test.refused).MatchString(said) {
						t.Errorf("%q: %v: %s; want an error about %s", test.knobs, err, said, test.refused)
					}
				case err != nil || len(h1.FindAllString(lock, -1)) != 1 || len(zh.FindAllString(lock, -1)) != zips:
					t.Errorf("%q: %v: %s\nlock file:\n%s", test.knobs, err, said, lock)
				case !strings.Contains(said, "toy is old."):
					t.Errorf("%q: no warning: %s", test.knobs, said)
				}
			}
		})
	}
}

// Signed checksums agree with sent files, also of large zips, and are equal on every upstream. Zips and checksums may
// come from another upstream.
func TestProviderFiles(t *testing.T) {
	fixture := txtar.Parse([]byte(`
-- providers/acme/toy/1.0.0/terraform-provider-toy_v1* --
#!/bin/sh
# {platform}
-- providers/acme/toy/1.0.0/knobs --
size=12
-- providers/acme/toy/1.1.0 --
listed=false
sums=large
-- providers/acme/toy/not a version --
-- providers/acme/odd/versions --
{"versions":[{"version":"18446744073709551616.0.0"}],"warnings":null}
`))
	far, u := registrytest.New(t, fixture), registrytest.New(t, fixture)
	u.Set(registrytest.Zip, registrytest.Knobs{Redirect: far.URL})
	u.Set(registrytest.Sums, registrytest.Knobs{Redirect: far.URL})
	c := client(t)
	c.CheckRedirect = nil
	get := func(path string) string {
		t.Helper()
		status, _, body, err := ask(t, c, path)
		if err != nil || status != http.StatusOK {
			t.Fatalf("GET %s: %d, %v", path, status, err)
		}
		return body
	}
	base := u.URL + "/v1/providers/acme/toy/"
	if list := get(base + "versions"); strings.Contains(list, "1.1.0") || !strings.Contains(list, `"not a version"`) {
		t.Errorf("versions: %s", list)
	}
	if list := get(u.URL + "/v1/providers/acme/odd/versions"); !strings.Contains(list, "18446744073709551616.0.0") {
		t.Errorf("versions of odd: %s", list)
	}
	for _, version := range []string{"1.0.0", "1.1.0"} {
		var said struct {
			Filename  string
			Shasum    string
			Sums      string `json:"shasums_url"`
			Signature string `json:"shasums_signature_url"`
			Keys      struct {
				List []struct {
					Armor string `json:"ascii_armor"`
				} `json:"gpg_public_keys"`
			} `json:"signing_keys"`
		}
		if err := json.Unmarshal([]byte(get(base+version+"/download/linux/amd64")), &said); err != nil {
			t.Fatal(err)
		}
		sums, signature := get(u.URL+said.Sums), get(u.URL+said.Signature)
		if signature != get(far.URL+said.Signature) {
			t.Errorf("%s: the signatures of two upstreams differ", version)
		}
		keys, err := openpgp.ReadArmoredKeyRing(strings.NewReader(said.Keys.List[0].Armor))
		if err != nil {
			t.Fatal(err)
		}
		_, err = openpgp.CheckDetachedSignature(keys, strings.NewReader(sums), strings.NewReader(signature), nil)
		if err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if large := len(sums) >= 10<<20; large != (version == "1.1.0") {
			t.Errorf("%s: checksums of %d bytes", version, len(sums))
		}
		if !strings.Contains(sums, said.Shasum+"  "+said.Filename+"\n") {
			t.Errorf("%s: no checksum of %s in %.1000s", version, said.Filename, sums)
		}
		body := get(u.URL + "/releases/acme/toy/" + version + "/" + said.Filename)
		if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got != said.Shasum {
			t.Errorf("%s: the zip has the checksum %s; want %s", version, got, said.Shasum)
		}
		if large := len(body) > 12<<20; large != (version == "1.0.0") {
			t.Errorf("%s: a zip of %d bytes", version, len(body))
		}
		z, err := zip.NewReader(strings.NewReader(body), int64(len(body)))
		if err != nil || z.File[0].Mode() != 0o755 || !strings.HasPrefix(z.File[0].Name, "terraform-provider-toy_v1") {
			t.Errorf("%s: %v, %+v", version, err, z)
		}
	}
	for kind, want := range map[registrytest.Kind]int{
		registrytest.ProviderVersions: 2, registrytest.ProviderDownload: 2,
		registrytest.Sums: 2, registrytest.Signature: 2, registrytest.Zip: 2,
	} {
		if got := u.Count(kind); got != want {
			t.Errorf("%d %s requests; want %d", got, kind, want)
		}
	}
}

// A mistake in the knobs of a version fails at the start.
func TestProviderSlips(t *testing.T) {
	for _, lines := range []string{
		"zip", "zip=", "zip=odd", "size=x", "protocols=5.x", "listed=maybe", "odd=1", "zip.odd=1", "zip.hold=true",
		"git.status=500", "zip.status=x",
	} {
		if u, err := registrytest.StartArchive(knobs([]string{lines}), registrytest.Options{}); err == nil {
			u.Close()
			t.Errorf("%q starts", lines)
		}
	}
}
