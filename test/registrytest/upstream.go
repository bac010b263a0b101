package registrytest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// Options are the listening options of an [Upstream]. The zero value is HTTPS on a free port of 127.0.0.1.
type Options struct {
	Addr  string   // host:port to listen on; port 0 selects a free one
	Plain bool     // HTTP without TLS
	Names []string // more hostnames for the certificate
}

// An Upstream is a module registry on this machine, with git repositories and archives. Its methods are safe for
// concurrent use.
type Upstream struct {
	Host string // host:port, which real clients accept as a registry's hostname
	URL  string // https://host:port

	// CAFile contains the certificate of the [CA] that signed the upstream's certificate, in PEM.
	CAFile string

	dir     string
	server  *http.Server
	tls     *tls.Config // nil before it first listens
	options Options

	mu       sync.Mutex
	served   *site
	loads    int
	settings map[Kind]*setting
	requests []Request
	conns    int
	up       bool
}

// New starts an upstream for a test. It is closed when the test ends.
func New(t testing.TB, fixture *txtar.Archive) *Upstream {
	t.Helper()
	u, err := StartArchive(fixture, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

// Start starts an upstream with the fixture at path: a directory, or a txtar file.
func Start(path string, o Options) (*Upstream, error) {
	files, err := fromPath(path)
	if err != nil {
		return nil, err
	}
	return start(files, o)
}

// StartArchive starts an upstream with a fixture.
func StartArchive(fixture *txtar.Archive, o Options) (*Upstream, error) {
	files, err := fromArchive(fixture)
	if err != nil {
		return nil, err
	}
	return start(files, o)
}

func start(files []file, o Options) (_ *Upstream, err error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	u := &Upstream{options: o, settings: map[Kind]*setting{}}
	if u.dir, err = os.MkdirTemp("", "registrytest-"); err != nil {
		return nil, err
	}
	u.CAFile = filepath.Join(u.dir, "ca.pem")
	if err := os.WriteFile(u.CAFile, CA().PEM, 0o600); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	if err := u.Up(); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	if err := u.load(files); err != nil {
		return nil, errors.Join(err, u.Close())
	}
	return u, nil
}

// Up listens at the start or after [Upstream.Down], on the same address as before.
func (u *Upstream) Up() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.up {
		return nil
	}
	l, err := net.Listen("tcp", u.options.Addr)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	u.options.Addr = l.Addr().String()
	u.Host, u.URL = u.options.Addr, "https://"+u.options.Addr
	if u.options.Plain {
		u.URL = "http://" + u.Host
	}
	u.server = &http.Server{Handler: u, ErrorLog: silent, ConnState: u.connected}
	if err := u.serve(l); err != nil {
		return errors.Join(err, l.Close())
	}
	u.up = true
	return nil
}

func (u *Upstream) serve(l net.Listener) error {
	server := u.server
	if u.options.Plain {
		go server.Serve(l)
		return nil
	}
	if u.tls == nil {
		ip, _, err := net.SplitHostPort(u.Host)
		if err != nil {
			return err
		}
		if u.tls, err = CA().ServerConfig(append([]string{ip, "localhost"}, u.options.Names...)...); err != nil {
			return err
		}
	}
	server.TLSConfig = u.tls.Clone()
	go server.ServeTLS(l, "", "")
	return nil
}

// Down refuses new connections and breaks existing ones.
func (u *Upstream) Down() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.up {
		u.server.Close()
		u.up = false
	}
}

// Close stops the upstream permanently and removes its files.
func (u *Upstream) Close() error {
	u.Set(All, Knobs{})
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.up {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if u.server.Shutdown(ctx) != nil {
			u.server.Close()
		}
		u.up = false
	}
	return errors.Join(u.served.close(), os.RemoveAll(u.dir))
}

// Load replaces the fixture. Counts and knobs stay.
func (u *Upstream) Load(path string) error {
	files, err := fromPath(path)
	if err != nil {
		return err
	}
	return u.load(files)
}

// LoadArchive is like [Upstream.Load], with a fixture in memory.
func (u *Upstream) LoadArchive(fixture *txtar.Archive) error {
	files, err := fromArchive(fixture)
	if err != nil {
		return err
	}
	return u.load(files)
}

func (u *Upstream) load(files []file) error {
	u.mu.Lock()
	u.loads++
	dir := filepath.Join(u.dir, fmt.Sprintf("git-%d", u.loads))
	u.mu.Unlock()
	s, err := newSite(files, u.Host, u.URL, dir, filepath.Join(u.dir, "oci"))
	if err != nil {
		return err
	}
	u.mu.Lock()
	before := u.served
	u.served = s
	u.mu.Unlock()
	return before.close()
}

// Commit returns the commit id of REPOSITORY@REVISION in the fixture.
func (u *Upstream) Commit(name string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served.repos.commit(name)
}

// Delete removes a tag of a repository, but not its commit, until the next fixture is loaded.
func (u *Upstream) Delete(repository, tag string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served.repos.delete(repository, tag)
}

// Move moves a tag of a repository to the commit of another revision, until the next fixture is loaded.
func (u *Upstream) Move(repository, tag, revision string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served.repos.move(repository, tag, revision)
}

// Annotate makes an annotated tag of the commit of a revision, until the next fixture is loaded.
func (u *Upstream) Annotate(repository, tag, revision string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.served.repos.annotate(repository, tag, revision)
}
