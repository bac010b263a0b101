package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// hostBlock finds the host blocks in the nginx.conf of a site.
var hostBlock = regexp.MustCompile(`(?m)^#   (host .*)\n#   (  services .*)\n#   (})$`)

// installationBlock finds the block about providers in it.
var installationBlock = regexp.MustCompile(`(?m)^#   provider_installation \{\n(?:#     .*\n)+#   \}$`)

// runSite serves a site with nginx until the script ends, and configures the client as the site's nginx.conf says; with -tls also for
// providers.
func runSite(ts *testscript.TestScript, neg bool, args []string) {
	scheme, tls := "http", ""
	if len(args) == 2 && args[0] == "-tls" {
		scheme, tls, args = "https", " ssl; ssl_certificate "+ts.MkAbs("cert.pem")+"; ssl_certificate_key "+ts.MkAbs("key.pem"), args[1:]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: site [-tls] DIR")
	}
	w, site := worldOf(ts), ts.MkAbs(args[0])
	dir, err := os.MkdirTemp(w.dir, "nginx-")
	ts.Check(err)
	address, err := freeAddress()
	ts.Check(err)
	nginx, err := startNginx(dir, address, fmt.Sprintf("server { listen %s%s; root %s; include %s/nginx.conf; }", address, tls, site, site))
	ts.Check(err)
	ts.Defer(nginx.Kill)
	ts.Setenv("SITE", scheme+"://"+address)
	var blocks strings.Builder
	says := ts.ReadFile(filepath.Join(site, "nginx.conf"))
	for _, block := range hostBlock.FindAllStringSubmatch(says, -1) {
		fmt.Fprintln(&blocks, strings.Join(block[1:], "\n"))
	}
	if tls != "" {
		blocks.WriteString(strings.ReplaceAll(installationBlock.FindString(says), "#   ", ""))
	}
	text := strings.ReplaceAll(blocks.String(), "https://modules.example.com", scheme+"://"+address)
	ts.Check(os.WriteFile(w.path("proxied.tfrc"), []byte(text), 0o600))
}
