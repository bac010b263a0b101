package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/modproxy/modproxy/test/rig"
)

// nginx serves files (disk), and the same through its cache (cached).
type nginx struct {
	*rig.Process
	disk, cached string // URLs
	files        string // the directory of the served files
}

// startNginx serves answers as files.
func (b *bench) startNginx(ctx context.Context, answers []copied) (*nginx, error) {
	dir, err := os.MkdirTemp(b.data, "nginx-")
	if err != nil {
		return nil, err
	}
	var addresses [2]string
	for i := range addresses {
		if addresses[i], err = freeAddress(); err != nil {
			return nil, err
		}
	}
	n := &nginx{disk: "http://" + addresses[0], cached: "http://" + addresses[1], files: filepath.Join(dir, "files")}
	var locations strings.Builder
	for _, a := range answers {
		if a.location != "" {
			fmt.Fprintf(&locations, "    location = %s { add_header X-Terraform-Get %s%s; return 204; }\n", a.path, n.disk, a.location)
			continue
		}
		file := filepath.Join(n.files, filepath.FromSlash(a.path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, a.body, 0o644); err != nil {
			return nil, err
		}
		if a.gzipped != nil {
			if err := os.WriteFile(file+".gz", a.gzipped.body, 0o644); err != nil {
				return nil, err
			}
		}
	}
	text := strings.NewReplacer("DIR", dir, "DISK", addresses[0], "CACHED", addresses[1],
		"USER", nginxUser(), "LOCATIONS", locations.String()).Replace(nginxConfig)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(b.nginxProgram, "-c", file, "-p", dir, "-e", filepath.Join(dir, "error.log"))
	if n.Process, err = rig.Start(cmd, filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	b.servers = append(b.servers, n.Process)
	return n, n.Until(ctx, func() bool {
		return rig.Get(ctx, n.cached+answers[0].path).Status == http.StatusOK
	})
}

// nginxUser is the directive with which workers of an nginx of root can read files of root.
func nginxUser() string {
	if os.Getuid() == 0 {
		return "user root;"
	}
	return ""
}

// nginxConfig is the relevant part of Debian's, with any number of requests on one connection, and the access log in pieces of the size
// in which modproxy writes its own.
const nginxConfig = `daemon off;
USER
worker_processes auto;
pid DIR/pid;
error_log DIR/error.log warn;
events { worker_connections 1024; }
http {
  default_type application/json;
  types { application/gzip gz; }
  sendfile on;
  tcp_nopush on;
  keepalive_requests 1000000000;
  access_log DIR/access.log combined buffer=64k flush=250ms;
  client_body_temp_path DIR/body;
  proxy_temp_path DIR/proxy;
  fastcgi_temp_path DIR/fastcgi;
  scgi_temp_path DIR/scgi;
  uwsgi_temp_path DIR/uwsgi;
  proxy_cache_path DIR/cache levels=1:2 keys_zone=modules:10m max_size=1g inactive=60m use_temp_path=off;
  server {
    listen DISK;
    root DIR/files;
    gzip_static on;
    gzip_vary on;
    gzip_proxied any;
LOCATIONS  }
  server {
    listen CACHED;
    location / {
      proxy_pass http://DISK;
      proxy_http_version 1.1;
      proxy_cache modules;
      proxy_cache_valid 200 204 1h;
    }
  }
}
`

// freeAddress is an address with a free port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// inMemory serves answers from memory by net/http alone, with their original header fields.
func inMemory(answers []copied) (server *http.Server, address string, err error) {
	type pair struct{ plain, gzipped *answer }
	all := map[string]pair{}
	for i := range answers {
		a := &answers[i]
		all[a.path] = pair{a.answer.fixed(), a.answer.fixed()}
		if a.gzipped != nil {
			all[a.path] = pair{a.answer.fixed(), a.gzipped.fixed()}
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		both, ok := all[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		a := both.plain
		if r.Header.Get("Accept-Encoding") == "gzip" {
			a = both.gzipped
		}
		maps.Copy(w.Header(), a.header)
		w.WriteHeader(a.status)
		w.Write(a.body) // an error means that the client is gone
	})}
	go server.Serve(listener)
	return server, "http://" + listener.Addr().String(), nil
}

// fixed is the answer without the fields that net/http writes, and with its length.
func (a answer) fixed() *answer {
	a.header = a.header.Clone()
	a.header.Del("Date")
	if a.location == "" {
		a.header.Set("Content-Length", fmt.Sprint(len(a.body)))
	}
	return &a
}

// machine describes this machine.
func machine(s *settings) string {
	return fmt.Sprintf("%s/%s, %d cores, %s; client in %s, servers in %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), s.scratch, s.data)
}
