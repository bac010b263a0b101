//go:build linux

package faults_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A copy of the directory whose index was read in two parts while clients installed is refused with a remedy that works, or serves
// everything that clients had before. While modproxy reports that it is ready, it installs new packages.
func TestTornIndex(t *testing.T) {
	for first, all := 0, rounds(4, 100); first < all; first += 10 { // all copies at once can need more than the disk has
		t.Run(fmt.Sprintf("from %d", first), func(t *testing.T) { newProxy(t, with{}).tornCopies(first, min(all, first+10)) })
	}
}

// tornCopies makes the copies with these numbers, and then examines them.
func (r *proxy) tornCopies(first, end int) {
	t := r.t
	r.start()
	r.ready()
	r.fill(50)
	endLoad := r.load(4)
	type copied struct {
		dir  string
		acks map[string]string
	}
	var list []copied
	for range end - first {
		c := copied{filepath.Join(t.TempDir(), "copy"), map[string]string{}}
		r.mu.Lock()
		for path, digest := range r.acks {
			c.acks[path] = digest
		}
		r.mu.Unlock()
		r.backUp(c.dir)
		r.tear(filepath.Join(c.dir, "index.db"))
		list = append(list, c)
	}
	endLoad()
	r.stop()
	refused := 0
	for at, c := range list {
		i := first + at
		if err := errors.Join(os.RemoveAll(r.data), os.Rename(c.dir, r.data)); err != nil {
			t.Fatal(err)
		}
		refusal := r.startOrRefuse("--offline")
		if refusal != "" {
			refused++
			switch {
			case strings.Contains(refusal, `"modproxy rebuild"`):
				r.output("rebuild")
			case strings.Contains(refusal, `"modproxy verify --read-data --repair"`):
				r.repair()
			default:
				t.Errorf("copy %d: no remedy: %s", i, refusal)
				continue
			}
			if refusal := r.startOrRefuse("--offline"); refusal != "" {
				t.Errorf("copy %d: after the remedy: %s", i, refusal)
				continue
			}
		}
		r.hasAll(fmt.Sprintf("copy %d", i), c.acks)
		r.stop()
		r.start()
		r.ready()
		for n := range 3 {
			a := r.ask("GET", packagePath(fmt.Sprintf("torn%d", n), "1.0.0"))
			if ready := r.isReady(); ready && a.Status != http.StatusOK {
				t.Errorf("copy %d: it is ready, and a new package is %v", i, a)
			}
		}
		r.stop()
	}
	t.Logf("%d copies, %d were refused", len(list), refused)
}

// repair runs modproxy verify. Its only remaining finding may be that the ledger, which is copied first, lacks versions.
func (r *proxy) repair() {
	r.t.Helper()
	out, err := r.command("verify", "--read-data", "--repair").CombinedOutput()
	for line := range strings.Lines(string(out)) {
		kind, what, _ := strings.Cut(line, ": ")
		left := strings.HasSuffix(kind, "_missing") || strings.HasSuffix(kind, "_damaged") || kind == "pin_differs"
		if left && !strings.HasSuffix(what, "; repaired\n") && !strings.HasSuffix(what, ": the ledger has no record of it\n") {
			r.t.Errorf("modproxy verify --read-data --repair: %v: %s", err, line)
		}
	}
}

// hasAll fails the test unless modproxy serves everything that clients received.
func (r *proxy) hasAll(what string, acks map[string]string) {
	r.t.Helper()
	for path, digest := range acks {
		a := r.ask("GET", path)
		if sum := sha256.Sum256(a.Body); a.Status != http.StatusOK || hex.EncodeToString(sum[:]) != digest {
			r.t.Errorf("%s: %s: %v", what, path, a)
		}
	}
}

// tear copies the index with its second half read some commits after the first.
func (r *proxy) tear(to string) {
	r.t.Helper()
	index, err := os.Open(filepath.Join(r.data, "index.db"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer index.Close()
	info, err := index.Stat()
	if err != nil {
		r.t.Fatal(err)
	}
	half := info.Size() / 2 &^ 4095
	content := make([]byte, half)
	if _, err := index.ReadAt(content, 0); err != nil {
		r.t.Fatal(err)
	}
	for before, started := r.acked(), time.Now(); r.acked() < before+2 && time.Since(started) < 2*time.Minute; time.Sleep(time.Millisecond) {
	}
	rest, err := os.ReadFile(index.Name())
	if err == nil {
		err = os.WriteFile(to, append(content, rest[half:]...), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}
