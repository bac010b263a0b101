//go:build linux

package faults_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// restore replaces the directory with a backup.
func (r *proxy) restore(file string) {
	r.t.Helper()
	if err := os.RemoveAll(r.data); err != nil {
		r.t.Fatal(err)
	}
	r.output("restore", file)
}

// Backups are made one after another while clients install. Each restores and verifies, and has everything that was acknowledged before it
// was begun, with its record in the ledger.
func TestBackup(t *testing.T) {
	r := newProxy(t, with{})
	var backups []string
	acks := r.duringLoad(rounds(2, 30), func(i int) {
		file := r.path(fmt.Sprintf("backup%d", i))
		r.output("backup", "--packages", file)
		backups = append(backups, file)
	})
	for i, file := range backups {
		r.restore(file)
		if kinds := r.verify(); len(kinds) > 0 {
			t.Errorf("backup %d: verify finds %v", i, kinds)
		}
		recorded := map[string]bool{}
		if err := r.printed(func(n named, _ string) { recorded[n.path()] = true }, "ledger", "show"); err != nil {
			t.Error(err)
		}
		r.start("--offline")
		r.ready()
		r.hasAcknowledged(fmt.Sprintf("backup %d", i), acks[i], recorded)
		r.stop()
	}
	t.Logf("%d backups, the last with %d packages acknowledged before", len(backups), len(acks[len(acks)-1]))
}

// sweptVerbs are the system calls at which verbs that write files are killed.
var sweptVerbs = []string{"fsync", "write", "renameat,renameat2", "openat", "unlinkat", "pwrite64", "mkdirat"}

// A backup is killed at each of its system calls. The file at its name is then missing, or a whole backup: this one or the one before. The
// next backup leaves no other file, and the data directory is unchanged.
func TestSweepOfBackup(t *testing.T) {
	d := newDirectory(t, 6)
	target := filepath.Join(t.TempDir(), "backups")
	file := filepath.Join(target, "backup")
	kills := 0
	for _, calls := range sweptVerbs[:rounds(3, len(sweptVerbs))] {
		var killed []int
		for _, n := range numbers(200, 1, 4) {
			if err := os.RemoveAll(target); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(target, 0o700); err != nil {
				t.Fatal(err)
			}
			if n%2 == 0 {
				d.output("backup", "--packages", file)
			}
			if !d.killedAt(calls, n, "backup", "--packages", "--yes", file) {
				break
			}
			killed = append(killed, n)
			what := fmt.Sprintf("killed at %s number %d", calls, n)
			if _, err := os.Stat(file); err == nil {
				d.restore(file)
				if refusal := d.startOrRefuse("--offline"); refusal != "" {
					t.Fatalf("%s: %s", what, refusal)
				}
				d.complete(what)
			} else if n%2 == 0 {
				t.Errorf("%s: the backup before is lost: %v", what, err)
			}
			d.output("backup", "--packages", "--yes", file)
			if left, err := os.ReadDir(target); err != nil || len(left) != 1 {
				t.Errorf("%s: after the next backup there are %v, %v", what, left, err)
			}
		}
		kills += len(killed)
		t.Logf("killed at %s %v", calls, killed)
	}
	if kills == 0 {
		t.Error("it was never killed")
	}
	d.restore(file)
	if refusal := d.startOrRefuse("--offline"); refusal != "" {
		t.Fatal(refusal)
	}
	d.complete("the last backup")
}

// A restore is killed at each of its system calls. The directory is then missing, complete, or refused until the restore is repeated.
func TestSweepOfRestore(t *testing.T) {
	d := newDirectory(t, 6)
	file := d.path("backup")
	d.output("backup", "--packages", file)
	kills, refused := 0, 0
	for _, calls := range sweptVerbs[:rounds(3, len(sweptVerbs))] {
		var killed []int
		for _, n := range numbers(200, 1, 20) {
			if err := os.RemoveAll(d.data); err != nil {
				t.Fatal(err)
			}
			if !d.killedAt(calls, n, "restore", file) {
				break
			}
			killed = append(killed, n)
			what := fmt.Sprintf("killed at %s number %d", calls, n)
			_, marked := os.Stat(filepath.Join(d.data, "restoring"))
			if _, begun := os.Stat(filepath.Join(d.data, "ledger")); marked == nil {
				if refusal := d.startOrRefuse("--offline"); !strings.Contains(refusal, "has not ended") || !strings.Contains(refusal, "modproxy restore FILE") {
					t.Fatalf("%s: it starts, or names no remedy: %s", what, refusal)
				}
				refused++
				d.output("restore", file)
			} else if begun != nil { // it was killed before its first file
				d.output("restore", file)
			} // else it was killed after its end
			if refusal := d.startOrRefuse("--offline"); refusal != "" {
				t.Fatalf("%s: %s", what, refusal)
			}
			d.complete(what)
		}
		kills += len(killed)
		t.Logf("killed at %s %v", calls, killed)
	}
	if refused == 0 || refused == kills {
		t.Errorf("of %d directories after a kill, %d were refused", kills, refused)
	}
}

// A corrupted backup is refused with a reason, and leaves nothing.
func TestCorruptBackups(t *testing.T) {
	d := newDirectory(t, 6)
	whole, corrupted := d.path("backup"), d.path("corrupted")
	d.output("backup", "--packages", whole)
	if err := os.RemoveAll(d.data); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for seed := range rounds(20, 500) {
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		c := corruptions[r.IntN(len(corruptions))]
		b := c.do(r, bytes.Clone(content))
		if bytes.Equal(b, content) {
			continue
		}
		changed++
		if err := os.WriteFile(corrupted, b, 0o600); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("seed %d, %s", seed, c.name)
		text, ok := d.ends(what, "restore", corrupted)
		if ok || !strings.HasPrefix(text, "modproxy: "+corrupted+": ") {
			t.Errorf("%s: restored %v: %s", what, ok, text)
		}
		if left, err := os.ReadDir(d.data); !os.IsNotExist(err) {
			t.Fatalf("%s: left behind: %v, %v", what, left, err)
		}
	}
	if changed == 0 {
		t.Error("nothing was changed")
	}
	d.output("restore", whole)
	if refusal := d.startOrRefuse("--offline"); refusal != "" {
		t.Fatal(refusal)
	}
	d.complete("the whole backup")
}
