package main_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/rig"
)

// startServer creates dir, starts a program in it with arguments, and waits until it accepts connections at address.
func startServer(dir, address, program string, args ...string) (*rig.Process, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir) // Caddy writes there
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                     // the workers of nginx outlive it
	log := filepath.Join(dir, program+".log")
	server, err := rig.Start(cmd, log)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = server.Until(ctx, func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	if err != nil {
		text, _ := os.ReadFile(log)
		server.Kill()
		return nil, fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return server, nil
}

// nginxConfig is the configuration of an nginx that runs without root, in a directory of its own.
const nginxConfig = `daemon off;
USER
pid DIR/pid;
error_log stderr warn;
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

// startNginx starts an nginx in dir with server blocks, and waits until it accepts connections at address.
func startNginx(dir, address, servers string) (*rig.Process, error) {
	user := ""
	if os.Getuid() == 0 { // as root, the workers of nginx could not read its files
		user = "user root;"
	}
	text := strings.NewReplacer("USER", user, "DIR", dir, "SERVERS", servers).Replace(nginxConfig)
	config := filepath.Join(dir, "main.conf")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startServer(dir, address, "nginx", "-c", config, "-p", dir, "-e", "stderr")
}

// frontHost is the address of every reverse proxy. Connections come from 127.0.0.1, so they never use a port of this address.
const frontHost = "127.0.0.9"

// freeAddress returns an address of this machine with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", frontHost+":0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// frontPage has a configuration of each reverse proxy, in a block with the name of the program as its language.
const frontPage = "docs/how-to/reverse-proxy.md"

// front is a reverse proxy in front of modproxy, with the configuration in frontPage.
type front struct {
	program string // nginx, haproxy or caddy
	dir     string // an existing directory for its files
	address string // on which it listens
	certs   string // the directory of cert.pem and key.pem
	proxy   string // the URL of modproxy
	http2   bool   // speaks HTTP/2 to clients
}

// start starts the reverse proxy and waits until it accepts connections.
func (f *front) start() (*rig.Process, error) {
	proxy := strings.TrimPrefix(f.proxy, "http://")
	if f.program == "nginx" {
		protocol := " ssl"
		if f.http2 {
			protocol += " http2"
		}
		text, err := f.configuration("listen 443 ssl", "listen "+f.address+protocol, "/etc/nginx/", f.certs+"/", "127.0.0.1:8080", proxy)
		if err != nil {
			return nil, err
		}
		return startNginx(f.dir, f.address, text)
	}
	config := filepath.Join(f.dir, "config")
	var text string
	var err error
	args := []string{"-db", "-f", config}
	switch f.program {
	case "haproxy":
		pem, protocols := filepath.Join(f.dir, "modules.pem"), "alpn http/1.1"
		if f.http2 {
			protocols = "alpn h2"
		}
		if err := concatenate(pem, filepath.Join(f.certs, "cert.pem"), filepath.Join(f.certs, "key.pem")); err != nil {
			return nil, err
		}
		text, err = f.configuration("bind :443", "bind "+f.address, "/etc/haproxy/modules.pem", pem, "alpn http/1.1", protocols, "127.0.0.1:8080", proxy)
	case "caddy":
		args = []string{"run", "--adapter", "caddyfile", "--config", config}
		protocols := "h1"
		if f.http2 {
			protocols = "h1 h2"
		}
		text, err = f.configuration("modules.example.com {", "https://"+f.address+" {\nbind "+frontHost, "/etc/caddy/", f.certs+"/", "127.0.0.1:8080", proxy)
		text = "{\nadmin off\nauto_https disable_redirects\nservers {\nprotocols " + protocols + "\n}\n}\n" + text
	}
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return startServer(f.dir, f.address, f.program, args...)
}

// configuration returns the configuration of the program in frontPage, in which each even argument is replaced by the next one.
func (f *front) configuration(replacements ...string) (string, error) {
	data, err := os.ReadFile(filepath.Join(top, frontPage))
	if err != nil {
		return "", err
	}
	blocks := page{frontPage, strings.Split(string(data), "\n")}.blocks()
	i := slices.IndexFunc(blocks, func(b codeBlock) bool { return b.language == f.program })
	if i < 0 {
		return "", fmt.Errorf("%s has no configuration of %s", frontPage, f.program)
	}
	text := strings.Join(blocks[i].lines, "\n") + "\n"
	for pair := range slices.Chunk(replacements, 2) {
		if !strings.Contains(text, pair[0]) {
			return "", fmt.Errorf("%s: the configuration of %s does not contain %q", frontPage, f.program, pair[0])
		}
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text, nil
}

// concatenate writes the content of files to another one.
func concatenate(to string, files ...string) error {
	var all []byte
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, data...)
	}
	return os.WriteFile(to, all, 0o600)
}

// runFront starts a reverse proxy in front of modproxy until the script ends, and makes the client use it.
func runFront(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: front [-haproxy|-caddy] http1|http2 [ADDRESS], or front address VARIABLE"
	program := "nginx"
	if len(args) > 0 && (args[0] == "-haproxy" || args[0] == "-caddy") {
		program, args = args[0][1:], args[1:]
	}
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
	w := worldOf(ts)
	dir, err := os.MkdirTemp(w.dir, "front-")
	ts.Check(err)
	f := front{program: program, dir: dir, address: address, certs: w.dir, proxy: ts.Getenv("PROXY"), http2: args[0] == "http2"}
	process, err := f.start()
	ts.Check(err)
	ts.Defer(process.Kill)
	ts.Setenv("FRONT", "https://"+address)
	ts.Check(w.configureClient(ts, "https://"+address))
}
