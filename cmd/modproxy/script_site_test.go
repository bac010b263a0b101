package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/rig"
)

// siteConfig is what nginx has to be told beside the nginx.conf of a site.
const siteConfig = `daemon off;
USER
pid DIR/pid;
error_log DIR/error.log warn;
events { worker_connections 64; }
http {
  access_log DIR/access.log;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  scgi_temp_path DIR/scgi;
  uwsgi_temp_path DIR/uwsgi;
  server { listen ADDRESSTLS; include SITE/nginx.conf; }
}
`

// hostBlock finds the host blocks in the nginx.conf of a site.
var hostBlock = regexp.MustCompile(`(?m)^#   (host .*)\n#   (  services .*)\n#   (})$`)

// installationBlock finds the block about providers in it.
var installationBlock = regexp.MustCompile(`(?m)^#   provider_installation \{\n(?:#     .*\n)+#   \}$`)

// runSite serves a site by nginx, until the script ends, and makes the client ask it as its nginx.conf says: with -tls for
// providers, too.
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
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	address := listener.Addr().String()
	ts.Check(listener.Close()) // nginx takes the port
	user := ""
	if os.Getuid() == 0 { // whose files its workers would not see
		user = "user root;"
	}
	text := strings.NewReplacer("USER", user, "DIR", dir, "ADDRESS", address, "TLS", tls, "SITE", site).Replace(siteConfig)
	ts.Check(os.WriteFile(filepath.Join(dir, "main.conf"), []byte(text), 0o600))
	cmd := exec.Command("nginx", "-c", filepath.Join(dir, "main.conf"), "-p", dir, "-e", filepath.Join(dir, "error.log"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its workers outlive it
	nginx, err := rig.Start(cmd, filepath.Join(dir, "nginx.log"))
	ts.Check(err)
	ts.Defer(nginx.Kill)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := nginx.Until(ctx, func() bool { return rig.Get(ctx, "http://"+address+"/").Status != 0 }); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
		ts.Fatalf("nginx: %v\n%s", err, log)
	}
	ts.Setenv("SITE", scheme+"://"+address)
	var blocks strings.Builder
	says := ts.ReadFile(filepath.Join(site, "nginx.conf"))
	for _, block := range hostBlock.FindAllStringSubmatch(says, -1) {
		fmt.Fprintln(&blocks, strings.Join(block[1:], "\n"))
	}
	if tls != "" {
		blocks.WriteString(strings.ReplaceAll(installationBlock.FindString(says), "#   ", ""))
	}
	text = strings.ReplaceAll(blocks.String(), "https://modules.example.com", scheme+"://"+address)
	ts.Check(os.WriteFile(w.path("proxied.tfrc"), []byte(text), 0o600))
}
