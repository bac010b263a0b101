//go:build linux

package faults_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// damages are changes of the file of a package. other is the file of another package.
var damages = []struct {
	name string
	do   func(file, other string) error
}{
	{"a bit", func(file, _ string) error { return flip(file, 10_000) }},
	{"cut short", func(file, _ string) error {
		return change(file, func(data []byte) []byte { return data[:len(data)-1000] })
	}},
	{"empty", func(file, _ string) error { return change(file, func([]byte) []byte { return nil }) }},
	{"gone", func(file, _ string) error { return os.Remove(file) }},
	{"a directory", func(file, _ string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
	{"a link", func(file, other string) error { return errors.Join(os.Remove(file), os.Symlink(other, file)) }},
	{"not readable", func(file, _ string) error { return os.Chmod(file, 0) }},
	{"another", func(file, other string) error {
		return errors.Join(os.Rename(file, file+".x"), os.Rename(other, file), os.Rename(file+".x", other))
	}},
}

// change changes a file in place, so that open descriptors see the change.
func change(file string, how func([]byte) []byte) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return errors.Join(os.Chmod(file, 0o600), os.WriteFile(file, how(data), 0o600), os.Chmod(file, 0o444))
}

// flip flips a bit of the byte at an offset.
func flip(file string, at int64) error {
	if err := os.Chmod(file, 0o600); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		return err
	}
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	return errors.Join(err, f.Chmod(0o444))
}

// asks are requests for a package of size bytes.
var asks = []struct {
	name, method string
	header       func(p keptPackage) []string
	from, to     int // the part in the answer; to counts from the end if not positive
}{
	{"GET", "GET", none, 0, 0},
	{"HEAD", "HEAD", none, 0, 0},
	{"the first", "GET", ranged("bytes=0-99"), 0, 100},
	{"the middle", "GET", ranged("bytes=5000-39999"), 5000, 40_000},
	{"the last", "GET", ranged("bytes=-100"), -100, 0},
	{"if it is another", "GET", func(p keptPackage) []string { return []string{"If-None-Match", p.tag} }, 0, 0},
	{"if it is none", "GET", func(keptPackage) []string { return []string{"If-None-Match", `"x"`} }, 0, 0},
}

func none(keptPackage) []string { return nil }

func ranged(of string) func(keptPackage) []string {
	return func(keptPackage) []string { return []string{"Range", of} }
}

// keptPackage is a package as a client first received it.
type keptPackage struct {
	path, file, tag string
	body            []byte
}

// keep lets modproxy fetch a package of a module.
func (r *proxy) keep(name string) keptPackage {
	r.t.Helper()
	return r.keepAt(packagePath(name, "1.0.0"))
}

// keepAt lets modproxy fetch a package.
func (r *proxy) keepAt(path string) keptPackage {
	r.t.Helper()
	a := r.ask("GET", path)
	if a.Status != http.StatusOK || a.Err != nil {
		r.t.Fatalf("%s: %v", path, a)
	}
	sum := sha256.Sum256(a.Body)
	digest := hex.EncodeToString(sum[:])
	return keptPackage{path, filepath.Join(r.data, "blobs/v1/sha256", digest[:2], digest), a.Header.Get("Etag"), a.Body}
}

// judge reports whether an answer to asks[i] is right and complete. It fails the test if the answer is complete and wrong.
func (r *proxy) judge(what string, i int, p keptPackage, a rig.Answer) bool {
	r.t.Helper()
	if a.Err != nil || a.Status >= 400 {
		return false
	}
	to := asks[i].to
	if to <= 0 {
		to += len(p.body)
	}
	from := asks[i].from
	if from < 0 {
		from += len(p.body)
	}
	want := p.body[from:to]
	if asks[i].method == "HEAD" || a.Status == http.StatusNotModified {
		// The headers are right if the package is available.
		a, want = r.ask("GET", p.path), p.body
	}
	if a.Err != nil || a.Status >= 400 || !bytes.Equal(a.Body, want) {
		r.t.Errorf("%s: %v; other bytes: %v", what, a, !bytes.Equal(a.Body, want))
	}
	return true
}

// withoutOverride is a program that runs modproxy as a user without access to files that only root may read.
func withoutOverride(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "modproxy")
	text := "#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search " + os.Getenv(rig.ProgramVariable) + " \"$@\"\n"
	if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return name
}

// sized is answer with archives of one size; with moved, they have other content.
type sized struct {
	bytes int
	moved atomic.Bool
}

const middling = 48 << 10

func (s *sized) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/archives/") {
		answer(w, r)
		return
	}
	w.Write(packed(fmt.Sprint(r.URL.Path, s.moved.Load()), random(r.URL.Path, s.bytes)))
}

// After any change of the files of packages, while modproxy runs or not, every complete answer has the stored content. If a registry has
// the package, it is available. Offline, modproxy reports that it is not. Damaged packages are quarantined.
func TestDamage(t *testing.T) {
	program := withoutOverride(t)
	for _, memory := range []string{"64MiB", "8KiB"} { // all packages in memory, or none
		for _, running := range []bool{false, true} {
			for _, offline := range []bool{false, true} {
				if !rig.Long() && (memory == "64MiB") != (running == offline) {
					continue // half of the cases suffice
				}
				t.Run(fmt.Sprintf("%s-running-%v-offline-%v", memory, running, offline), func(t *testing.T) {
					t.Setenv("MODPROXY_CACHE_MEMORY", memory)
					r := newProxy(t, with{program: program, registry: &sized{bytes: middling}})
					r.damageAll(running, offline, running && memory == "64MiB")
				})
			}
		}
	}
}

// damageAll stores a package for each damage and request, damages them, and sends the requests. Damage of packages in memory is not
// noticed.
func (r *proxy) damageAll(running, offline, held bool) {
	var args []string
	if offline {
		args = append(args, "--offline")
	}
	r.start()
	r.ready()
	all := make([][]keptPackage, len(damages))
	var group sync.WaitGroup
	for d := range damages {
		all[d] = make([]keptPackage, len(asks))
		group.Go(func() {
			for i := range asks {
				all[d][i] = r.keep(fmt.Sprintf("m%dx%d", d, i))
			}
		})
	}
	group.Wait()
	restart := func() {
		r.stop()
		r.start(args...)
		r.ready()
	}
	if running && offline {
		restart()
	}
	if held || running && offline { // before a fetch, the store is checked
		for d := range damages {
			for _, p := range all[d] {
				r.ask("GET", p.path)
			}
		}
	}
	if !running {
		r.stop()
	}
	for d, damage := range damages {
		for i, p := range all[d] {
			other := all[d][(i+1)%len(asks)].file
			if damage.name == "another" && i == len(asks)-1 {
				continue // each of these is now another package
			}
			if err := damage.do(p.file, other); err != nil {
				r.t.Fatalf("%s: %v", damage.name, err)
			}
		}
	}
	if !running {
		r.start(args...)
		r.ready()
	}
	for d, damage := range damages {
		for i, p := range all[d] {
			what := damage.name + ", " + asks[i].name
			a := r.ask(asks[i].method, p.path, asks[i].header(p)...)
			well := r.judge(what, i, p, a)
			if !well && a.Status < 400 && asks[i].name == "GET" { // it was cut off, because it is verified while it is sent
				a = r.ask("GET", p.path)
				well = r.judge(what+" once more", i, p, a)
			}
			switch {
			case well == (!offline || held):
			case well:
				r.t.Errorf("%s: %v, of something that is damaged", what, a)
			default:
				r.t.Errorf("%s: %v", what, a)
			}
			if !well && (a.Status != http.StatusFailedDependency || !strings.Contains(a.Said(), "no longer cached (evicted, removed or damaged), and modproxy is offline") && asks[i].method != "HEAD") {
				r.t.Errorf("%s: not clear: %v", what, a)
			}
		}
	}
	r.stop()
	every := len(damages) * len(asks)
	if held {
		r.damagesFound(every, 0)
	} else {
		r.damagesFound(0, every-len(asks)) // missing files have no remains
	}
	evicted := 0
	switch {
	case held:
		evicted = 3 * len(asks) // without a regular file: missing, a directory, a link
	case offline:
		evicted = every
	}
	if n := bytes.Count(r.output("ls", "--json"), []byte(`"state":"evicted"`)); n != evicted {
		r.t.Errorf("%d are named as no longer kept; want %d", n, evicted)
	}
}

// damagesFound compares the findings of verify and the quarantined packages with the damages: a quarantined package is not reported
// again, and is not stored.
func (r *proxy) damagesFound(found, aside int) {
	r.t.Helper()
	kinds := r.verify()
	sum := 0
	for _, n := range kinds {
		sum += n
	}
	if sum != found {
		r.t.Errorf("verify finds %v; want %d", kinds, found)
	}
	left, err := os.ReadDir(filepath.Join(r.data, "quarantine"))
	if len(left) != aside || err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Errorf("%d were set aside, %v; want %d", len(left), err, aside)
	}
}

// If upstream offers other content, it does not replace a damaged package, and the offer is recorded.
func TestDamageWhenUpstreamHasMoved(t *testing.T) {
	for _, memory := range []string{"64MiB", "8KiB"} {
		t.Setenv("MODPROXY_CACHE_MEMORY", memory)
		t.Setenv("MODPROXY_CACHE_MISSING", "1ms")
		up := &sized{bytes: middling}
		r := newProxy(t, with{registry: up})
		r.start()
		r.ready()
		var all []keptPackage
		for i := range asks {
			all = append(all, r.keep(fmt.Sprintf("m%d", i)))
		}
		r.stop()
		for _, p := range all {
			if err := flip(p.file, 20_000); err != nil {
				t.Fatal(err)
			}
		}
		up.moved.Store(true)
		r.start()
		r.ready()
		for i, p := range all {
			for range 3 {
				a := r.ask(asks[i].method, p.path, asks[i].header(p)...)
				if r.judge(asks[i].name, i, p, a) || a.Status != 0 && a.Status != http.StatusOK && a.Status != http.StatusConflict && a.Status != http.StatusFailedDependency {
					t.Errorf("%s: %v", asks[i].name, a)
				}
			}
		}
		if out, err := r.command("ledger", "drift").CombinedOutput(); bytes.Count(out, []byte("offered:")) != len(all) || err == nil {
			t.Errorf("ledger drift: %v\n%s", err, out)
		}
		up.moved.Store(false)
		for i, p := range all {
			if !r.judge(asks[i].name, i, p, r.ask(asks[i].method, p.path, asks[i].header(p)...)) {
				t.Errorf("%s: not mended", asks[i].name)
			}
		}
		r.stop()
		r.damagesFound(0, len(all))
	}
}

// verify returns the number of damaged items of each kind that "modproxy verify --read-data" finds.
func (r *proxy) verify() map[string]int {
	r.t.Helper()
	out, err := r.command("verify", "--read-data", "--json").Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	kinds := map[string]int{}
	var found struct {
		Items []struct{ Kind string }
	}
	if err := json.Unmarshal(out, &found); err != nil {
		r.t.Fatalf("%v in %s", err, out)
	}
	for _, damage := range found.Items {
		kinds[damage.Kind]++
	}
	if (len(kinds) > 0) != (err != nil) {
		r.t.Errorf("verify: %v, and finds %v\n%s%s", err, kinds, out, exit.Stderr)
	}
	return kinds
}
