package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileForge starts a git server whose tags have hostile names, and returns a configuration with own modules in its repository.
func hostileForge(t *testing.T) (file string) {
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	one, other := strings.Repeat("1", 40), strings.Repeat("2", 40)
	list := line(one + " refs/tags/" + hostile)
	for _, tag := range []string{"v1.0.0", "v1.1", "v2.0.0", "v1.0.0+" + hostile, "v\xff", "x/v1.0.0"} {
		list += line(one + " refs/tags/" + tag)
	}
	list += line(other + " refs/tags/2.0.0")
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/absent") {
			http.Error(w, hostile, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
		_, _ = io.WriteString(w, list+"0000")
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	file = filepath.Join(dir, "modproxy.yaml")
	must(t, os.WriteFile(file, []byte(fmt.Sprintf(`
egress: {allow: [127.0.0.0/8], ca_file: %q}
modules_host: modules.example.com
modules:
  - {address: corp/vpc/aws, source: "git::%s/a.git"}
  - {address: corp/absent/aws, source: "git::%[2]s/absent.git"}
  - {address: corp/dns/aws, source: "git::%[2]s/a.git", path: dns, tags: "x/v{version}"}
  - {address: "corp/{name}/{system}", source: "git::%[2]s/{system}-{name}.git"}
`, ca, server.URL)), 0o600))
	return file
}
