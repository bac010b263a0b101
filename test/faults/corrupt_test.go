//go:build linux

package faults_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// seedVariable names the first seed of TestCorruption, so that an interrupted run can continue. "-run TestCorruption/^7$" runs one seed.
const seedVariable = "FAULTS_SEED"

// verbTime is the longest time of a verb, a start or an end, with any files.
const verbTime = 2 * time.Minute

// corruptions are changes of a file. Each returns the new content.
var corruptions = []struct {
	name string
	do   func(r *rand.Rand, b []byte) []byte
}{
	{"a bit", func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= 1 << r.IntN(8); return b }},
	{"a byte", func(r *rand.Rand, b []byte) []byte { b[r.IntN(len(b))] ^= byte(1 + r.IntN(255)); return b }},
	{"64 bytes", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b))
		for i := range b[at:min(at+64, len(b))] {
			b[at+i] = byte(r.Uint32())
		}
		return b
	}},
	{"cut short", func(r *rand.Rand, b []byte) []byte { return b[:r.IntN(len(b))] }},
	{"a page of zeros", func(r *rand.Rand, b []byte) []byte {
		at := r.IntN(len(b)) &^ 4095
		clear(b[at:min(at+4096, len(b))])
		return b
	}},
	{"swapped pages", func(r *rand.Rand, b []byte) []byte {
		pages := slices.Collect(slices.Chunk(bytes.Clone(b), 4096))
		i, k := r.IntN(len(pages)), r.IntN(len(pages))
		pages[i], pages[k] = pages[k], pages[i]
		return slices.Concat(pages...)
	}},
	{"a circle", func(r *rand.Rand, b []byte) []byte { // of branch pages, if the index has some
		for at := 2 * 4096; at+4096 <= len(b); at += 4096 {
			if n := binary.NativeEndian.Uint16(b[at+8:]); n == 1 {
				if count := int(binary.NativeEndian.Uint16(b[at+10:])); count > 0 && count < 250 {
					binary.NativeEndian.PutUint64(b[at+16+16*r.IntN(count)+8:], uint64(at/4096))
				}
			}
		}
		return b
	}},
}

// files returns the files of a data directory that are not empty.
func (d *directory) files() (names []string) {
	d.t.Helper()
	err := filepath.WalkDir(d.whole, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		if name, _ = filepath.Rel(d.whole, name); err == nil && info.Size() > 0 {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return names
}

// corrupt restores the directory with one file corrupted by a seed. It returns the name of the file and the change.
func (d *directory) corrupt(seed int, files []string) (name, what string) {
	d.t.Helper()
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	if name = "index.db"; r.IntN(3) == 0 { // most other files are packages
		name = files[r.IntN(len(files))]
		if r.IntN(2) == 0 {
			name = []string{"ledger/log", "ledger/head", "ledger/key", "layout.json", "auth/tokens.json"}[r.IntN(5)]
		}
	}
	c := corruptions[r.IntN(len(corruptions))]
	content := c.do(r, d.file(d.whole, name))
	d.put(name, content)
	return name, c.name
}

// ends runs a verb, which must end in time, and returns its output and whether it succeeded.
func (d *directory) ends(what string, args ...string) (text string, ok bool) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), verbTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.program, args...)
	cmd.Env = append(os.Environ(), "MODPROXY_CONFIG="+d.path("modproxy.yaml"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		d.t.Errorf("%s: modproxy %s did not end within %v", what, strings.Join(args, " "), verbTime)
	case err != nil && !errors.As(err, &exit), bytes.Contains(out, []byte("goroutine ")), err != nil && len(out) == 0:
		d.t.Errorf("%s: modproxy %s: %v\n%s", what, strings.Join(args, " "), err, out)
	}
	return string(out), err == nil
}

// serves starts modproxy, requests everything, and ends it with SIGTERM. It returns what is not served, or the reason why modproxy does
// not start.
func (d *directory) serves(what string, args ...string) (lacks []string, refusal string) {
	d.t.Helper()
	before, _ := os.ReadFile(d.path("log"))
	d.start(args...)
	ctx, cancel := context.WithTimeout(d.t.Context(), verbTime)
	defer cancel()
	err := d.server.Until(ctx, d.isReady)
	select {
	case <-d.server.Exited():
		refusal = string(d.server.Log()[len(before):])
		d.server = nil
		if refusal == "" || strings.Contains(refusal, "goroutine ") {
			d.t.Errorf("%s: serve ends with %q", what, refusal)
		}
		return nil, refusal
	default:
	}
	if err != nil {
		d.t.Errorf("%s: %v", what, err)
	}
	for _, p := range d.kept {
		a := d.ask("GET", p.path)
		if a.Status == http.StatusOK && !bytes.Equal(a.Body, p.body) && a.Err == nil {
			d.t.Errorf("%s: %s has other bytes", what, p.path)
		}
		if a.Status != http.StatusOK || a.Err != nil {
			if a.Err == nil && a.Said() == "" {
				d.t.Errorf("%s: %s: %v, without a word", what, p.path, a)
			}
			lacks = append(lacks, p.path)
		}
	}
	if err := d.server.Signal(syscall.SIGTERM); err != nil {
		d.t.Errorf("%s: %v", what, err)
	}
	var exit *exec.ExitError // it reports when it could not record the last uses
	if err := d.server.Wait(verbTime); err != nil && (!errors.As(err, &exit) || !exit.Exited()) {
		d.t.Errorf("%s: after SIGTERM: %v", what, err)
	}
	d.server = nil
	return lacks, ""
}

// remedy follows the advice in a message, and returns false if the message has none.
func (d *directory) remedy(what, message, export, key string) bool {
	d.t.Helper()
	switch {
	case strings.Contains(message, "modproxy ledger import"), strings.Contains(message, `put the backup of the directory "ledger" back`):
		if err := os.RemoveAll(filepath.Join(d.data, "ledger")); err != nil {
			d.t.Fatal(err)
		}
		d.output("ledger", "import", export, "--key", key)
	case strings.Contains(message, "the file is damaged: remove it"):
		if err := os.Remove(filepath.Join(d.data, "layout.json")); err != nil {
			d.t.Fatal(err)
		}
	case strings.Contains(message, `"modproxy rebuild"`):
		d.output("rebuild")
	case strings.Contains(message, `"modproxy verify --read-data --repair"`):
		d.output("verify", "--read-data", "--repair")
	default:
		d.t.Errorf("%s: no remedy: %s", what, message)
		return false
	}
	return true
}

// everyVerb are verbs that read a data directory, with their arguments.
var everyVerb = [][]string{
	{"ls"}, {"ls", "--json"}, {"verify"}, {"gc"}, {"missing"}, {"pending"}, {"decisions"}, {"ledger", "show"}, {"ledger", "drift"}, {"ledger", "key"},
	{"token", "list"}, {"policy", "report"}, {"refresh", "up.example.com/acme/m0/aws"}, {"rm", "up.example.com/acme/m0/aws", "1.0.0"},
	{"export", "all.bundle"}, {"block", "up.example.com/acme/m1/aws", "1.0.0"}, {"verify", "--read-data", "--repair"}, {"rebuild"},
}

// After any change of one file of the data directory, modproxy starts and serves intact packages, or refuses to start. Every verb ends.
// Each message names a remedy that works. No wrong byte is served. verify reports everything that is not served. SIGTERM ends the
// process.
func TestCorruption(t *testing.T) {
	d := newDirectory(t, 60)
	copyAll(t, d.whole, d.data)
	d.output("token", "create", "ops", "--admin")
	copyAll(t, d.data, d.whole)
	export := filepath.Join(t.TempDir(), "export")
	d.output("ledger", "export", export)
	key := strings.TrimSpace(string(d.output("ledger", "key")))
	files := d.files()
	first, most := 0, rounds(8, 1000)
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		if first, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	counts, corrupted := map[string]int{}, filepath.Join(t.TempDir(), "corrupted")
	for seed := first; seed < most; seed++ {
		t.Run(fmt.Sprint(seed), func(sub *testing.T) {
			d.t = sub
			defer func() { d.t = t }()
			name, how := d.corrupt(seed, files)
			what := name + ": " + how
			copyAll(sub, d.data, corrupted)
			counts[d.survives(what, name, seed, export, key)]++
			copyAll(sub, corrupted, d.data)
			if text, ok := d.ends(what, "rebuild"); !ok && !namesRemedy(text) {
				sub.Errorf("%s: rebuild names no remedy: %s", what, text)
			}
			for _, verb := range everyVerb {
				if seed%20 == 0 {
					copyAll(sub, corrupted, d.data)
					os.Remove("all.bundle")
					d.ends(what, verb...)
				}
			}
		})
	}
	t.Logf("seeds %d to %d: %v", first, most-1, counts)
}

// namesRemedy reports whether a message names a remedy.
func namesRemedy(message string) bool {
	return slices.ContainsFunc([]string{"hint: ", `"modproxy `, "back", "remove it"}, func(s string) bool { return strings.Contains(message, s) })
}

// survives returns the outcome for a corrupted directory.
func (d *directory) survives(what, name string, seed int, export, key string) (outcome string) {
	d.t.Helper()
	found, sound := d.ends(what, "verify", "--read-data")
	noticed := !sound || strings.Contains(found, "without a record")
	listed, ok := d.ends(what, "ls")
	if !ok {
		noticed = true
		if !namesRemedy(listed) {
			d.t.Errorf("%s: ls names no remedy: %s", what, listed)
		}
	}
	args := []string{"--offline"}
	if seed%2 == 0 {
		args = nil // with the registry
	}
	lacks, refusal := d.serves(what, args...)
	outcome = "served"
	switch {
	case refusal != "":
		outcome = "refused"
		if !d.remedy(what, refusal, export, key) {
			return outcome
		}
	case len(lacks) > 0 && !noticed:
		d.t.Errorf("%s: it lacks %q, and neither verify nor ls says so: %s", what, lacks, found)
	case len(lacks) > 0 && name == "index.db":
		d.t.Errorf("%s: it started, and lacks %q", what, lacks)
	case !sound:
		outcome = "served, and found by verify"
		if again, ok := d.ends(what, "verify", "--read-data"); !ok && !d.remedy(what, again, export, key) { // otherwise serve has mended it
			return outcome
		}
	}
	// With the registry, everything is served unchanged. Without it, everything except a package whose own bytes were damaged.
	if lacks, refusal := d.serves(what+", remedied", "--offline"); refusal != "" || len(lacks) > 1 || len(lacks) == 1 && !strings.HasPrefix(name, "blobs/") {
		d.t.Errorf("%s, remedied: it lacks %q, and says %q", what, lacks, refusal)
	}
	if lacks, refusal := d.serves(what + ", remedied and online"); refusal != "" || len(lacks) > 0 {
		d.t.Errorf("%s, remedied and online: it lacks %q, and says %q", what, lacks, refusal)
	}
	if text, ok := d.ends(what, "verify", "--read-data"); !ok {
		d.t.Errorf("%s, remedied: verify finds damage: %s", what, text)
	}
	return outcome
}
