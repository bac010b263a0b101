//go:build linux

package hostile_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// No entry of modules, and no answer of a forge, leads to an address that is forbidden.
func TestOwnModulesLeadNowhere(t *testing.T) {
	entries := map[string]string{ // each source, by the name of the module
		"loopback": "git::https://loopback.evil.test/x.git", "inside": "git::https://inside.evil.test/x.git", "six": "git::https://inside6.evil.test/x.git",
		"mapped": "git::https://mapped.evil.test/x.git", "ssh": "git::ssh://git@inside.evil.test/x.git", "scp": "git::git@loopback.evil.test:x.git",
	}
	for name, to := range map[string]string{
		"metadata": "https://169.254.169.254", "name": "https://inside.evil.test", "plain": "http://src.test", "port": "https://src.test:8443",
		"file": "file:///etc", "helper": "ext::sh -c id", "other-ssh": "ssh://git@10.0.0.5", "back": "https://loopback.evil.test",
	} {
		host := "led-" + name + ".evil.test"
		strangerAt(t, host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", to+r.URL.RequestURI())
			w.WriteHeader(http.StatusTemporaryRedirect)
		}))
		entries["led-to-"+name] = "git::https://" + host + "/x.git"
	}
	key := filepath.Join(t.TempDir(), "key") // its content does not matter: modproxy refuses the addresses before it connects
	if err := os.WriteFile(key, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	config := strings.Replace(own("credentials:\n"), "egress: {", "egress: {ports: [22], ", 1)
	for _, host := range []string{"inside.evil.test", "loopback.evil.test"} {
		config += fmt.Sprintf("  - {host: %s, ssh_key_file: %s, known_hosts_file: %[2]s}\n", host, key)
	}
	var lines strings.Builder
	for name, source := range entries {
		fmt.Fprintf(&lines, "  - {address: acme/%s/aws, source: %q}\n", name, source)
	}
	p := startOwn(t, strings.Replace(config, "modules:\n", "modules:\n"+lines.String(), 1))
	for name := range entries {
		p.run(name, func(t *testing.T) {
			m := ownModule("acme", name)
			for _, rest := range []string{"versions", "1.0.0/download"} {
				a := p.ask(http.MethodGet, m.path(rest))
				if a.Status < 400 || a.Status == http.StatusNotFound || a.Status == http.StatusInternalServerError {
					t.Errorf("%s: %d %s", rest, a.Status, a.Said())
				}
			}
		})
	}
}
