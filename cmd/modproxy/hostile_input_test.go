package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
)

// The content of a directory with installed modules is never a line of the output of "lock" or of its file.
func TestHostileLock(t *testing.T) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	call := func(key, source, version string) string {
		return `{"Key":` + key + `,"Source":` + source + `,"Version":` + version + `,"Dir":".terraform/modules/x"}`
	}
	for name, files := range map[string]map[string]string{
		"key":     {".terraform/modules/modules.json": `{"Modules":[` + call(string(quoted), `"git::https://git.example/x"`, `""`) + `]}`},
		"source":  {".terraform/modules/modules.json": `{"Modules":[` + call(`"x"`, string(quoted), `"1.0.0"`) + `]}`},
		"version": {".terraform/modules/modules.json": `{"Modules":[` + call(`"x"`, `"registry.acme.example/acme/x/aws"`, string(quoted)) + `]}`},
		"invalid": {".terraform/modules/modules.json": "{\"Modules\":[" + call("\"x\xff\"", "\"y\xff\"", `""`) + "]}"},
		"lock":    {"modproxy.lock": hostile, ".terraform/modules/modules.json": `{"Modules":[]}`},
		"provider": {".terraform.lock.hcl": "provider \"" + hostile + "\" {\n version = \"1.0.0\"\n hashes = [\"h1:\x1b\"]\n}\n",
			".terraform/modules/modules.json": `{"Modules":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range [][]string{{"lock"}, {"lock", "--check", "--no-ledger"}, {"lock", "providers", "--platform", "linux_amd64"}} {
				dir := t.TempDir()
				for file, text := range files {
					if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.MkdirAll(filepath.Join(dir, ".terraform/modules/x", forged), 0o700); err != nil {
					t.Fatal(err)
				}
				got := command(t, nil, append(line, dir, "--data", filepath.Join(dir, "data"))...)
				isHarmless(t, strings.Join(line, " "), got.stdout+got.stderr)
				if text, err := os.ReadFile(filepath.Join(dir, "modproxy.lock")); err == nil && files["modproxy.lock"] == "" {
					isHarmless(t, "modproxy.lock", string(text))
				}
			}
		})
	}
}

// The text of a configuration is never a line of the output of "modules suggest".
func TestHostileCalls(t *testing.T) {
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Trim(string(quoted), `"`)
	for _, source := range []string{
		text, "git::" + text, "git::https://git.example.com/" + text + "?ref=v1.0.0", "git::https://git.example.com/a/b//" + text + "?ref=v1.0.0",
		"git::https://git.example.com/a/b?ref=" + text, "git::https://git.example.com/a/b?ref=" + url.QueryEscape(hostile) + "/v1.0.0",
	} {
		dir := filepath.Join(t.TempDir(), forged)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		configuration := `{"module": {"x": {"source": "` + source + `"}, "y": {"source": "git::https://git.example.com/a/b?ref=v1.0.0"}}}`
		if err := os.WriteFile(filepath.Join(dir, "main.tf.json"), []byte(configuration), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, flags := range [][]string{nil, {"--json"}} {
			got := command(t, nil, append([]string{"modules", "suggest", dir}, flags...)...)
			isHarmless(t, source, got.stdout+got.stderr)
			if !strings.Contains(got.stdout, "modules.example.com/a/b/any") {
				t.Errorf("%q: got\n%s\n%s", source, got.stdout, got.stderr)
			}
		}
	}
}

// The content of a damaged index, or of answers of a registry or a proxy, is not a line of the output either.
func TestHostileElsewhere(t *testing.T) {
	data := t.TempDir()
	if got := command(t, nil, "ledger", "init", "--data", data); got.code != exitDone {
		t.Fatal(got.stderr)
	}
	d, err := disk.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{hostile, hostile + "\xff/1.0.0", "registry.acme.example/acme/x/aws/1.0.0\xff" + hostile} {
		for _, kind := range []store.Kind{cache.PackageKind, cache.VersionsKind, hostile} {
			if _, err := d.Records().Put(t.Context(), store.Record{Ref: store.Ref{Kind: kind, Key: key}, Value: []byte(hostile)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "well-known"):
			_, _ = w.Write([]byte(`{"modules.v1":"/v1/"}`))
			return
		case strings.HasPrefix(r.URL.Path, "/v1/"):
			w.Header().Set("X-Terraform-Get", "./x\u202e"+forged)
			_ = json.NewEncoder(w).Encode(map[string]any{"modules": []any{map[string]any{"versions": []any{map[string]any{"version": hostile}, map[string]any{"version": "1.0.0"}}}}})
			return
		}
		conn, out, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = out.WriteString("HTTP/1.1 418 \x1b]0;evil\a\u202e\r\nModproxy-Api: 1\r\nConnection: close\r\n\r\n" + `{"errors":["x\n` + forged + `\u001b"]}`)
		_ = out.Flush()
	}))
	defer wrong.Close()
	client := filepath.Join(t.TempDir(), "client.tfrc")
	services := `{"modules.v1" = "` + wrong.URL + `/v1/", "\u202e` + forged + `" = "\u001b"}`
	if err := os.WriteFile(client, []byte(`host "registry.terraform.io" { services = `+services+` }`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"ls", "--data", data}, {"verify", "--read-data", "--data", data}, {"rebuild", "--data", data}, {"verify", "--read-data", "--data", data},
		{"health", "--url", wrong.URL}, {"conformance", "--url", wrong.URL, "--module", "acme/x/aws"},
		{"conformance", "--markdown", "--url", wrong.URL, "--module", "acme/x/aws"}, {"ls", "--server", wrong.URL},
		{"import", "--data", filepath.Join(data, "new"), filepath.Join(data, "index.db")},
		{"modules", "check", "--config", hostileForge(t)}, {"modules", "check", "--json", "--config", hostileForge(t)},
		{"doctor", "--client", client}, {"doctor", "--client", filepath.Join(data, "index.db")},
		{"backup", "--packages", "--data", data, filepath.Join(t.TempDir(), "backup")},
		{"restore", "--data", filepath.Join(data, "new"), filepath.Join(data, "index.db")},
	} {
		got := command(t, []string{"MODPROXY_TOKEN=x"}, line...)
		if got.code == exitMisuse {
			t.Errorf("%q is misused: %s", line, got.stderr)
		}
		isHarmless(t, strings.Join(line, " "), got.stdout+got.stderr)
	}
}
