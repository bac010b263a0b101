package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/rig"
)

// nginxConfig is the configuration of an nginx that runs without root, in a directory of its own.
const nginxConfig = `daemon off;
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
  SERVERS
}
`

// startNginx creates dir, starts an nginx in it with server blocks, and waits until it answers at address.
func startNginx(dir, address, servers string) (*rig.Process, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	user := ""
	if os.Getuid() == 0 { // as root, the workers of nginx could not read its files
		user = "user root;"
	}
	text := strings.NewReplacer("USER", user, "DIR", dir, "SERVERS", servers).Replace(nginxConfig)
	if err := os.WriteFile(filepath.Join(dir, "main.conf"), []byte(text), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command("nginx", "-c", filepath.Join(dir, "main.conf"), "-p", dir, "-e", filepath.Join(dir, "error.log"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the workers of nginx outlive it
	nginx, err := rig.Start(cmd, filepath.Join(dir, "nginx.log"))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = nginx.Until(ctx, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "error.log"))
		nginx.Kill()
		return nil, fmt.Errorf("nginx: %w\n%s", err, log)
	}
	return nginx, nil
}

// frontHost is the address of every nginx. Connections come from 127.0.0.1, so they never use a port of this address.
const frontHost = "127.0.0.9"

// freeAddress returns an address of this machine with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", frontHost+":0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// frontServer is a typical reverse proxy.
const frontServer = `server {
    listen ADDRESS ssl HTTP2;
    ssl_certificate CERTS/cert.pem;
    ssl_certificate_key CERTS/key.pem;
    location / {
      proxy_pass PROXY;
      proxy_http_version 1.1;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Proto https;
    }
  }`

// startFront starts an nginx at address in front of the modproxy at the URL proxy, with HTTP/2 for clients if http2 is true.
func startFront(dir, address, certs, proxy string, http2 bool) (*rig.Process, error) {
	protocol := ""
	if http2 {
		protocol = "http2"
	}
	text := strings.NewReplacer("ADDRESS", address, "HTTP2", protocol, "CERTS", certs, "PROXY", proxy).Replace(frontServer)
	return startNginx(dir, address, text)
}

// runFront starts an nginx in front of modproxy until the script ends, and makes the client use it.
func runFront(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: front http1|http2 [ADDRESS], or front address VARIABLE"
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf(usage)
	}
	address, err := freeAddress()
	ts.Check(err)
	switch {
	case args[0] == "address" && len(args) == 2:
		ts.Setenv(args[1], address)
		return
	case args[0] != "http1" && args[0] != "http2":
		ts.Fatalf(usage)
	case len(args) == 2:
		address = args[1]
	}
	w, http2 := worldOf(ts), args[0] == "http2"
	dir, err := os.MkdirTemp(w.dir, "front-")
	ts.Check(err)
	nginx, err := startFront(dir, address, w.dir, ts.Getenv("PROXY"), http2)
	ts.Check(err)
	ts.Defer(nginx.Kill)
	ts.Setenv("FRONT", "https://"+address)
	ts.Check(w.configureClient(ts, "https://"+address))
}
