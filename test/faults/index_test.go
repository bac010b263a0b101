//go:build linux

package faults_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// directory is a data directory for damages, in its last state, with an older copy.
type directory struct {
	*proxy
	whole, older string
	kept         []keptPackage
	lists        []string // the paths of their versions
	ledger       []byte   // output of "modproxy ledger show"
}

// newDirectory stores packages of modules, and two of a provider. The older copy has half of them.
func newDirectory(t *testing.T, packages int) *directory {
	t.Helper()
	r := newProxy(t, with{registry: &sized{bytes: 1000}})
	d := &directory{proxy: r, whole: filepath.Join(t.TempDir(), "whole"), older: filepath.Join(t.TempDir(), "older")}
	for i, copied := range []string{d.older, d.whole} {
		r.start()
		r.ready()
		for range packages / 2 {
			name := fmt.Sprintf("m%d", len(d.kept))
			if a := r.ask("GET", modulePath(name)+"/versions"); a.Status != http.StatusOK {
				t.Fatal(a)
			}
			d.kept, d.lists = append(d.kept, r.keep(name)), append(d.lists, modulePath(name)+"/versions")
		}
		if a := r.ask("GET", toyPath+"/versions"); a.Status != http.StatusOK {
			t.Fatal(a)
		}
		d.kept, d.lists = append(d.kept, r.keepAt(toyZip(int64(2*i)))), append(d.lists, toyPath+"/versions")
		r.stop()
		d.ledger = r.output("ledger", "show")
		copyAll(t, r.data, copied)
	}
	return d
}

func copyAll(t *testing.T, from, to string) {
	t.Helper()
	for range 100 {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("cp", "-a", from, to).CombinedOutput()
		if err == nil {
			return
		}
		if !strings.Contains(string(out), "replaced while being copied") {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	t.Fatalf("%s was replaced during each of 100 copies", from)
}

// output returns the output of a verb, which must succeed.
func (r *proxy) output(args ...string) []byte {
	r.t.Helper()
	var complaint bytes.Buffer
	cmd := r.command(args...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		r.t.Errorf("modproxy %s: %v\n%s%s", strings.Join(args, " "), err, out, complaint.Bytes())
	}
	return out
}

// startOrRefuse returns the empty string if modproxy starts, and otherwise its message.
func (r *proxy) startOrRefuse(args ...string) (refusal string) {
	r.t.Helper()
	before, _ := os.ReadFile(r.path("log")) // the log may not exist
	r.start(args...)
	err := r.server.Until(r.t.Context(), r.isReady)
	if err == nil {
		return ""
	}
	select {
	case <-r.server.Exited():
	default:
		r.t.Fatal(err)
	}
	refusal = string(r.server.Log()[len(before):])
	if err := r.server.Wait(0); err == nil || refusal == "" || strings.Contains(refusal, "goroutine ") {
		r.t.Errorf("modproxy ended with %v, and said %q", err, refusal)
	}
	r.server = nil
	return refusal
}

// complete fails the test unless all stored packages are served offline, unchanged, and the ledger is unchanged. It ends modproxy.
func (d *directory) complete(what string) {
	d.t.Helper()
	if lacks := d.lacks(what); len(lacks) > 0 {
		d.t.Errorf("%s: it lacks %q", what, lacks)
	}
	d.stop()
	if is := d.output("ledger", "show"); !bytes.Equal(is, d.ledger) {
		d.t.Errorf("%s: the ledger has\n%sand had\n%s", what, is, d.ledger)
	}
	if kinds := d.verify(); len(kinds) > 0 {
		d.t.Errorf("%s: verify finds %v", what, kinds)
	}
}

// lacks requests all stored packages and returns those that are not served. It fails the test if one is served with other content, or is
// reported not to exist.
func (d *directory) lacks(what string) (lacks []string) {
	d.t.Helper()
	for i, p := range d.kept {
		for path, right := range map[string]func(body []byte) bool{
			p.path: func(body []byte) bool { return bytes.Equal(body, p.body) },
			d.lists[i]: func(body []byte) bool {
				return bytes.Contains(body, []byte(`"1.0.0"`)) == !strings.HasPrefix(p.path, toyPath)
			},
		} {
			a := d.ask("GET", path)
			if a.Status == http.StatusOK && !right(a.Body) || a.Status == http.StatusNotFound || a.Status == 0 {
				d.t.Errorf("%s: %s: %v %.500s", what, path, a, a.Body)
			}
			if a.Status != http.StatusOK {
				lacks = append(lacks, fmt.Sprintf("%s: %v", path, a))
			}
		}
	}
	return lacks
}

// pages returns the pages of one kind in an index: 2 is a leaf, 16 the list of free pages (internal/common/page.go of bbolt). Free pages
// are included.
func pages(index []byte, kind uint16) (all [][]byte) {
	size := os.Getpagesize()
	for at := 2 * size; at+size <= len(index); at += size {
		if binary.NativeEndian.Uint16(index[at+8:]) == kind {
			all = append(all, index[at:at+size])
		}
	}
	return all
}

func scribble(part []byte) { copy(part, random("garbage", len(part))) }

// indexDamages are changes of an index.
var indexDamages = []struct {
	name string
	do   func(d *directory, index []byte) []byte
}{
	{"the first meta page", func(_ *directory, b []byte) []byte { scribble(b[:4096]); return b }},
	{"the second meta page", func(_ *directory, b []byte) []byte { scribble(b[4096:8192]); return b }},
	{"both meta pages", func(_ *directory, b []byte) []byte { scribble(b[:8192]); return b }},
	{"both meta pages zero", func(_ *directory, b []byte) []byte { clear(b[:8192]); return b }},
	{"the free list", func(_ *directory, b []byte) []byte {
		for _, p := range pages(b, 16) {
			scribble(p[16:])
		}
		return b
	}},
	{"the head of the free list", func(_ *directory, b []byte) []byte {
		for _, p := range pages(b, 16) {
			scribble(p[:16])
		}
		return b
	}},
	{"leaf pages zero", func(d *directory, b []byte) []byte { d.leaves(b, func(p []byte) { clear(p) }); return b }},
	{"leaf pages garbage", func(d *directory, b []byte) []byte { d.leaves(b, scribble); return b }},
	{"the ends of leaf pages", func(d *directory, b []byte) []byte {
		d.leaves(b, func(p []byte) { scribble(p[len(p)-512:]) })
		return b
	}},
	{"the items of leaf pages", func(d *directory, b []byte) []byte { d.leaves(b, func(p []byte) { scribble(p[16:512]) }); return b }},
	{"a byte of a value", func(d *directory, b []byte) []byte {
		return bytes.ReplaceAll(b, []byte(`"sum":"h1:`), []byte(`"sum":"h2:`))
	}},
	{"cut short", func(_ *directory, b []byte) []byte { return b[:len(b)/2] }},
	{"empty", func(*directory, []byte) []byte { return []byte{} }},
	{"gone", func(*directory, []byte) []byte { return nil }},
	{"foreign", func(*directory, []byte) []byte { return random("foreign", 20_000) }},
}

// leaves calls do with the leaf pages that have records of stored packages.
func (d *directory) leaves(index []byte, do func(page []byte)) {
	n := 0
	for _, p := range pages(index, 2) {
		if bytes.Contains(p, []byte("up.example.com/acme/m0/aws")) {
			do(p)
			n++
		}
	}
	if n == 0 {
		d.t.Fatal("no page has the record")
	}
}

func (d *directory) file(dir, name string) []byte {
	d.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		d.t.Fatal(err)
	}
	return data
}

// put restores the directory except for one file; nil means without the file.
func (d *directory) put(name string, content []byte) {
	d.t.Helper()
	copyAll(d.t, d.whole, d.data)
	err := os.Remove(filepath.Join(d.data, name))
	if err == nil && content != nil {
		err = os.WriteFile(filepath.Join(d.data, name), content, 0o600)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// After any damage of the index, modproxy starts and has everything, or refuses to start, or serves intact packages while verify finds
// the damage. It names a remedy, after which it has everything.
func TestDamagedIndex(t *testing.T) {
	d := newDirectory(t, rounds(12, 200))
	for _, damage := range indexDamages {
		d.put("index.db", damage.do(d, d.file(d.whole, "index.db")))
		how := "refused"
		refusal := d.startOrRefuse("--offline")
		if refusal == "" {
			lacks, server := d.lacks(damage.name), d.server
			d.server = nil
			if err := server.Stop(); err != nil { // it records the last uses
				how, refusal = "served, but for what it should have written", string(server.Log())
			} else if out, err := d.command("verify").CombinedOutput(); err != nil {
				how, refusal = "served all the same, and found by verify", string(out)
			} else if len(lacks) == 0 {
				t.Logf("%s: served", damage.name)
				continue
			} else {
				t.Errorf("%s: it lacks %q, and verify finds nothing", damage.name, lacks)
			}
		}
		t.Logf("%s: %s", damage.name, how)
		switch {
		case strings.Contains(refusal, `"modproxy rebuild"`):
			d.output("rebuild")
		case strings.Contains(refusal, `"modproxy verify --read-data --repair"`):
			d.output("verify", "--read-data", "--repair")
		default:
			t.Errorf("%s: no remedy: %s", damage.name, refusal)
		}
		if refusal := d.startOrRefuse("--offline"); refusal != "" {
			t.Errorf("%s: after a rebuild: %s", damage.name, refusal)
			continue
		}
		d.complete(damage.name)
	}
}

// ledgerDamages are changes of a file of the ledger. older is the file in an earlier state.
var ledgerDamages = []struct {
	name string
	do   func(content, older []byte) []byte
}{
	{"a bit", func(b, _ []byte) []byte { b[len(b)/2] ^= 1; return b }},
	{"cut short", func(b, _ []byte) []byte { return b[:len(b)-10] }},
	{"empty", func(b, _ []byte) []byte { return []byte{} }},
	{"gone", func(b, _ []byte) []byte { return nil }},
	{"garbage", func(b, _ []byte) []byte { scribble(b[len(b)/3 : len(b)/2]); return b }},
	{"foreign", func(b, _ []byte) []byte { return random("foreign", 2000) }},
	{"older", func(_, older []byte) []byte { return older }},
}

// After any damage of a file of the ledger, modproxy refuses to start, and each remedy that it names works.
func TestDamagedLedger(t *testing.T) {
	d := newDirectory(t, rounds(6, 30))
	export := filepath.Join(t.TempDir(), "export")
	copyAll(t, d.whole, d.data)
	d.output("ledger", "export", export)
	key := strings.TrimSpace(string(d.output("ledger", "key")))
	for n, file := range []string{"log", "head", "key"} {
		for i, damage := range ledgerDamages {
			what, name := file+": "+damage.name, "ledger/"+file
			content := damage.do(d.file(d.whole, name), d.file(d.older, name))
			if bytes.Equal(content, d.file(d.whole, name)) && content != nil {
				continue // the key never changes
			}
			d.put(name, content)
			if !rig.Long() && i%3 != n {
				continue // only some of them, to save time
			}
			refusal := d.startOrRefuse("--offline")
			if refusal == "" && what == "head: older" { // the rest is in the log, undamaged
				d.complete(what)
				continue
			}
			if !strings.Contains(refusal, "restore a backup of the whole directory") || !strings.Contains(refusal, "modproxy ledger import") {
				t.Errorf("%s: no remedy: %q", what, refusal)
				if refusal == "" {
					d.stop()
				}
				continue
			}
			ledger := filepath.Join(d.data, "ledger")
			if i%2 == 0 {
				copyAll(t, filepath.Join(d.whole, "ledger"), ledger)
			} else {
				if err := os.Rename(ledger, ledger+".away"); err != nil {
					t.Fatal(err)
				}
				d.output("ledger", "import", export, "--key", key)
			}
			if refusal := d.startOrRefuse("--offline"); refusal != "" {
				t.Errorf("%s: after that: %s", what, refusal)
				continue
			}
			d.complete(what)
		}
	}
}
