package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modproxy/modproxy/test/registrytest"
)

// registryHost is the hostname of the registry in source addresses.
const registryHost = "registry.acme.example"

// A registry has every module whose name describes it: the size of its package in bytes and the number of its versions, as in
// acme/m17-65536-10/aws. The content of a package depends on the name and the version.
type registry struct {
	url      string
	server   *http.Server
	roundTo  atomic.Int64 // nanoseconds of a round trip: an answer takes one, and a new connection two before it
	turns    chan struct{}
	trouble  atomic.Pointer[trouble]
	archives sync.Map // number of requests by path
	asked    atomic.Int64
	git      atomic.Pointer[http.Handler] // nil until serveGit
}

// trouble is a failure of a registry.
type trouble struct {
	refuse bool          // break connections
	slow   time.Duration // wait before every answer
	status int           // answer only this status
	cut    bool          // break off within bodies
	share  float64       // share of requests answered with 502, of as many with broken connections, and of as many without an answer
}

// startRegistry starts a registry that answers atOnce requests at the same time.
func startRegistry(atOnce int) (*registry, error) {
	config, err := registrytest.CA().ServerConfig("127.0.0.1")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &registry{url: "https://" + listener.Addr().String(), turns: make(chan struct{}, atOnce)}
	u.trouble.Store(&trouble{})
	type opened struct{}
	u.server = &http.Server{
		Handler:           u,
		TLSConfig:         config,
		ErrorLog:          log.New(io.Discard, "", 0), // of connections of killed programs
		ReadHeaderTimeout: time.Minute,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, opened{}, new(atomic.Bool))
		},
	}
	u.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trips := int64(1)
		if before, ok := r.Context().Value(opened{}).(*atomic.Bool); ok && !before.Swap(true) {
			trips = 3
		}
		pause(r.Context(), time.Duration(trips*u.roundTo.Load()))
		u.ServeHTTP(w, r)
	})
	go u.server.ServeTLS(listener, "", "")
	return u, nil
}

func (u *registry) close() error { return u.server.Close() }

// pause waits for a while, or until ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (u *registry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.asked.Add(1)
	now := u.trouble.Load()
	switch chance := rand.Float64(); {
	case chance < now.share:
		http.Error(w, "not now", http.StatusBadGateway)
		return
	case chance < 2*now.share:
		panic(http.ErrAbortHandler)
	case chance < 3*now.share:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	}
	u.turns <- struct{}{}
	defer func() { <-u.turns }()
	pause(r.Context(), now.slow)
	switch {
	case now.refuse:
		panic(http.ErrAbortHandler)
	case now.status != 0:
		if now.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "2")
		}
		http.Error(w, "not now", now.status)
		return
	}
	if err := u.answer(w, r, now.cut); err != nil {
		http.NotFound(w, r)
	}
}

// answer answers a request about a module by its name.
func (u *registry) answer(w http.ResponseWriter, r *http.Request, cut bool) error {
	switch rest, is := strings.CutPrefix(r.URL.Path, "/v1/modules/"); {
	case is && strings.HasSuffix(rest, "/versions"):
		_, count, err := likeness(path.Dir(rest))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, list(count))
	case is && strings.HasSuffix(rest, "/download"):
		if _, _, err := likeness(path.Dir(path.Dir(rest))); err != nil {
			return err
		}
		w.Header().Set("X-Terraform-Get", u.source(strings.TrimSuffix(rest, "/download")))
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(r.URL.Path, "/archives/"):
		size, _, err := likeness(path.Dir(strings.TrimPrefix(r.URL.Path, "/archives/")))
		if err != nil {
			return err
		}
		n, _ := u.archives.LoadOrStore(r.URL.Path, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		body := packed(r.URL.Path, size)
		w.Header().Set("Content-Type", "application/gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if cut {
			w.Write(body[:len(body)/2])
			panic(http.ErrAbortHandler)
		}
		w.Write(body)
	case strings.HasPrefix(r.URL.Path, gitPath):
		return u.answerGit(w, r)
	case strings.HasPrefix(r.URL.Path, providersPath), strings.HasPrefix(r.URL.Path, "/releases/"):
		return u.answerProvider(w, r)
	default:
		return errors.New("no such thing")
	}
	return nil
}

// fetched returns the number of requested archives, and of all requests for archives.
func (u *registry) fetched() (distinct, all int64) {
	u.archives.Range(func(_, n any) bool {
		distinct++
		all += n.(*atomic.Int64).Load()
		return true
	})
	return distinct, all
}

// moduleName is the name of a module with versions of size bytes.
func moduleName(group string, n, size, versions int) string {
	return fmt.Sprintf("acme/%s%d-%d-%d/aws", group, n, size, versions)
}

// likeness parses the name of a module.
func likeness(module string) (size, versions int, err error) {
	parts := strings.Split(path.Base(path.Dir(module)), "-")
	if len(parts) != 3 {
		return 0, 0, errors.New("no such module")
	}
	size, err = strconv.Atoi(parts[1])
	versions, wrong := strconv.Atoi(parts[2])
	if err = errors.Join(err, wrong); err != nil || size > 64<<20 || versions > 1000 {
		return 0, 0, fmt.Errorf("no such module: %w", err)
	}
	return size, versions, nil
}

// list is a versions document.
func list(count int) string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf(
			`{"version":"1.%d.0","root":{"providers":[{"name":"aws","namespace":"hashicorp","source":"hashicorp/aws","version":">= 5.%d"}],"dependencies":[]},"submodules":[]}`, i, i))
	}
	return `{"modules":[{"versions":[` + strings.Join(all, ",") + `]}]}`
}

// packed is an archive with size bytes that do not compress.
func packed(name string, size int) []byte {
	var b bytes.Buffer
	b.Grow(size + 4<<10)
	z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression) // the level is valid
	t := tar.NewWriter(z)
	data := make([]byte, size)
	rand.NewChaCha8(sha256.Sum256([]byte(name))).Read(data) // never fails
	for _, f := range []struct {
		name string
		data []byte
	}{{"main.tf", []byte("# " + name + "\n")}, {"data.bin", data}} {
		t.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.data))}) // writes to a buffer
		t.Write(f.data)
	}
	t.Close()
	z.Close()
	return b.Bytes()
}
