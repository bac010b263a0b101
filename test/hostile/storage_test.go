//go:build linux

package hostile_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// address returns the module in the form of verbs.
func (m module) address() string {
	return m.host + "/" + m.namespace + "/" + m.name + "/" + m.system
}

// operate is verb, for a verb that asks the serving program.
func (p *proxy) operate(args ...string) string {
	p.t.Helper()
	p.count(1)
	return p.verb(args...)
}

// The record in the ledger decides which content of a version is served, for any content in the cache and in memory. Removed packages are
// not served.
func TestWhatCountsIsServed(t *testing.T) {
	p := startOwn(t, ordinary)
	var archive atomic.Pointer[[]byte] // of the server; nil: none
	of := func(text string) *[]byte {
		data := tarGz(t, entry{name: "main.tf", data: text})
		return &data
	}
	archive.Store(of("first"))
	m := atArchive(t, "x.tar.gz", func(w http.ResponseWriter, r *http.Request) {
		if data := archive.Load(); data != nil {
			w.Write(*data)
			return
		}
		http.NotFound(w, r)
	})
	twin := atArchive(t, "x.tar.gz", bytesOf(*of("second")))
	p.mustInstall(twin, "1.0.0")
	p.mustInstall(m, "1.0.0")
	p.run("accepted", func(t *testing.T) {
		var listed struct{ Items []struct{ Sum string } }
		if err := json.Unmarshal([]byte(p.operate("ls", twin.address(), "--json")), &listed); err != nil || len(listed.Items) != 1 {
			t.Fatalf("no sum: %v", err)
		}
		archive.Store(of("second"))
		p.operate("ledger", "accept", m.address(), "1.0.0", "--sum", listed.Items[0].Sum, "--reason", "a test")
		delete(p.packages, m.archive("1.0.0")) // the content changes here
		if got := p.mustInstall(m, "1.0.0")["main.tf"].data; got != "second" {
			t.Errorf("after the second content was accepted, the %s is served", got)
		}
	})
	p.run("removed", func(t *testing.T) {
		archive.Store(nil)
		p.operate("rm", m.address(), "1.0.0")
		for _, path := range []string{m.path("1.0.0/download"), m.archive("1.0.0")} {
			if a := p.ask(http.MethodGet, path); a.Status < 400 {
				t.Errorf("GET %s: %d, after it was removed", path, a.Status)
			}
		}
	})
}

// A damaged blob is never served whole, nor a damaged part of it, and is fetched again.
func TestDamagedBlobsAreNotServed(t *testing.T) {
	p := startOwn(t, ordinary)
	m := atArchive(t, "x.tar.gz", bytesOf(randomPackage(t, 9<<20))) // too large for the cache in memory
	good := p.install(m, "1.0.0")
	if good.Status != http.StatusOK {
		t.Fatal(good.Said())
	}
	at := len(good.Body) / 2
	for _, part := range []string{"", fmt.Sprintf("bytes=%d-%d", at-10, at+10)} {
		p.run("part "+part, func(t *testing.T) {
			p.damage(fmt.Sprintf("%x", sha256.Sum256(good.Body)), at)
			headers, want := []string{}, good.Body
			if part != "" {
				headers, want = []string{"Range", part}, good.Body[at-10:at+11]
			}
			mended := eventually(func() bool {
				a, err := p.try(context.Background(), http.MethodGet, m.archive("1.0.0"), headers...)
				if err != nil || a.Status >= 400 {
					return false
				}
				if !bytes.Equal(a.Body, want) {
					t.Errorf("%d: other bytes than before", a.Status)
				}
				return true
			})
			if !mended {
				t.Error("it is not fetched again")
			}
		})
	}
}

// damage changes one byte in the file of a blob.
func (p *proxy) damage(digest string, at int) {
	p.t.Helper()
	name := filepath.Join(p.data, "blobs", "v1", "sha256", digest[:2], digest)
	data, err := os.ReadFile(name)
	if err != nil {
		p.t.Fatal(err)
	}
	data[at] ^= 1
	if err := os.Chmod(name, 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// Only the owner of the data directory can read its files or connect to the operator's socket, even if the directory itself is opened to
// others.
func TestDataIsForItsOwner(t *testing.T) {
	p := start(t, ordinary)
	sockets := 0
	err := filepath.WalkDir(p.data, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // it was temporary
		}
		if info.Mode().Type() == fs.ModeSocket {
			sockets++
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", strings.TrimPrefix(name, p.data), info.Mode())
		}
		if d.Name() == "blobs" {
			return fs.SkipDir // read-only files in a closed directory
		}
		return nil
	})
	if err != nil || sockets != 1 {
		t.Errorf("%d sockets, %v", sockets, err)
	}
}
