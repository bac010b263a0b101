//go:build linux

package hostile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/modproxy/modproxy/test/rig"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/test/registrytest"
)

// The good servers and the strangers have addresses of the public internet, because modproxy rightly refuses addresses for tests and
// examples.
const (
	goodNetwork      = "93.184.215."
	strangersAddress = goodNetwork + "66"
	insideAddress    = "10.1.0.1" // of strangers, in the private network
)

// Secrets that must appear only at their configured destinations.
const (
	secretToken    = "UPTOK-4f7e9a1c2b" // corp.test's bearer token
	secretPassword = "PASSW-8d0c5e6b71" // for src2.test
	secretLocation = "URLPW-b3a2f9d480" // in the user information of locations
	secretQuery    = "QUERY-c6e1d7f052" // in the query of locations
	secretClient   = "CLIENT-0a9b8c7d6e"
	secretCanary   = "METADATA-e5d4c3b2a1"
)

var secrets = []string{secretToken, secretPassword, secretLocation, secretQuery, secretClient, secretCanary}

// world is everything around modproxy. All tests share one world.
var world = &theWorld{names: newNames(), strangers: newStrangers(), good: map[string]*registrytest.Upstream{}}

type theWorld struct {
	names     *names
	touches   touches
	strangers *strangers
	good      map[string]*registrytest.Upstream // by name
	caFile    string
	arguments arguments
}

// insideNames are names with forbidden addresses.
var insideNames = map[string][]string{
	"inside.evil.test":   {"169.254.169.254"},
	"inside6.evil.test":  {"fd00:ec2::254"},
	"mapped.evil.test":   {"::ffff:169.254.169.254"},
	"loopback.evil.test": {"127.0.0.1", "::1"},
}

// goodServers each have an address and a fixture in testdata.
var goodServers = []string{"up-a.test", "up-b.test", "corp.test", "src.test", "src2.test"}

func (w *theWorld) start() error {
	w.caFile = filepath.Join(os.TempDir(), "ca.pem")
	if err := os.WriteFile(w.caFile, registrytest.CA().PEM, 0o644); err != nil {
		return err
	}
	if err := w.names.serve(); err != nil {
		return err
	}
	if err := w.touches.startCanaries(); err != nil {
		return err
	}
	if err := w.strangers.start(); err != nil {
		return err
	}
	for name, to := range insideNames {
		w.names.set(name, to...)
	}
	for i, name := range goodServers {
		address := fmt.Sprintf("%s%d", goodNetwork, 10+i)
		w.names.set(name, address)
		fixture, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
		if err != nil {
			return err
		}
		u, err := registrytest.StartArchive(fixture, registrytest.Options{Addr: address + ":443", Names: []string{name}})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		w.good[name] = u
	}
	go w.arguments.watch()
	return nil
}

// hangUp closes idle connections at every server.
func (w *theWorld) hangUp() error {
	w.strangers.hangUp()
	for name, u := range w.good {
		u.Down()
		if err := u.Up(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

var cut struct {
	sync.Mutex
	lines []string
}

// shorter reports whether a case must be shortened, and logs that.
func shorter(t testing.TB, what string) bool {
	if rig.Long() {
		return false
	}
	t.Logf("cut down: %s", what)
	cut.Lock()
	defer cut.Unlock()
	cut.lines = append(cut.lines, t.Name()+": "+what)
	return true
}

func cutDown() []string {
	cut.Lock()
	defer cut.Unlock()
	return cut.lines
}
