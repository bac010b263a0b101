//go:build linux

package faults_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bundled returns a stopped proxy with packages that clients received, and a bundle of them.
func bundled(t *testing.T, packages int) (from *proxy, file, key string) {
	t.Helper()
	from = newProxy(t, with{})
	from.start()
	from.ready()
	for i := range packages {
		if err := from.get(t.Context(), packagePath(fmt.Sprintf("m%d", i%5), fmt.Sprintf("1.%d.0", i))); err != nil {
			t.Fatal(err)
		}
	}
	from.stop()
	file = from.path("whole.bundle")
	from.must("export", file)
	return from, file, strings.TrimSpace(from.must("ledger", "key"))
}

// must runs a verb, which must succeed, and returns its output.
func (r *proxy) must(args ...string) string {
	r.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := r.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.t.Fatalf("%q: %v\n%s", args, err, stderr.String())
	}
	return stdout.String()
}

// interrupt runs a verb and kills it at a random moment of its usual time. It reports whether the verb ended before.
func (r *proxy) interrupt(usual time.Duration, args ...string) (done bool) {
	r.t.Helper()
	cmd := r.command(args...)
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	time.Sleep(time.Duration(rand.Int64N(int64(usual))))
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	return cmd.Wait() == nil
}

// A killed export leaves no file or the whole file, and the next export succeeds.
func TestKillExport(t *testing.T) {
	r, file, _ := bundled(t, 40)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	again := r.path("again.bundle")
	began := time.Now()
	r.must("export", again)
	usual := time.Since(began)
	for round := range rounds(4, 100) {
		if err := os.Remove(again); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		r.interrupt(usual, "export", again)
		if is, err := os.ReadFile(again); !errors.Is(err, fs.ErrNotExist) && !bytes.Equal(is, want) {
			t.Fatalf("round %d: %d bytes, %v", round+1, len(is), err)
		}
	}
	if err := os.Remove(again); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	r.must("export", again)
	if is, err := os.ReadFile(again); err != nil || !bytes.Equal(is, want) {
		t.Errorf("at the end %d bytes, and %d at first: %v", len(is), len(want), err)
	}
}

// wantAll imports the whole bundle, which completes the content. Everything is then stored once.
func (r *proxy) wantAll(from *proxy, file, key string) {
	r.t.Helper()
	var imported struct {
		Summary struct{ Added, Kept, Refused, Absent int }
	}
	if err := json.Unmarshal([]byte(r.must("import", file, "--key", key, "--json")), &imported); err != nil {
		r.t.Fatal(err)
	}
	report := imported.Summary
	all := from.acked()
	if report.Added+report.Kept != all || report.Refused+report.Absent > 0 {
		r.t.Errorf("%+v of %d", report, all)
	}
	if n := strings.Count(r.must("ledger", "show"), "\n"); n != all {
		r.t.Errorf("%d records of %d versions", n, all)
	}
	r.acks = from.acks
	if err := r.check(); err != nil {
		r.t.Error(err)
	}
	r.residue()
}

// An import that is killed at any moment damages nothing, and the next import completes it.
func TestKillImport(t *testing.T) {
	from, file, key := bundled(t, 40)
	began := time.Now()
	newProxy(t, with{}).must("import", file, "--key", key)
	usual := time.Since(began)
	for range rounds(2, 20) {
		r := newProxy(t, with{})
		for round := range 6 {
			if r.interrupt(usual/3, "import", file, "--key", key) {
				break
			}
			if _, err := os.Stat(filepath.Join(r.data, "ledger", "log")); err != nil {
				continue // it was killed before it began
			}
			if err := r.check(); err != nil {
				t.Fatalf("round %d: %v", round+1, err)
			}
		}
		r.wantAll(from, file, key)
	}
	// If the serving process is killed, the verb ends, too.
	r := newProxy(t, with{})
	for round := range rounds(3, 40) {
		r.start("--offline")
		r.ready()
		verb := r.command("import", file, "--key", key)
		if err := verb.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(usual / 3))))
		r.kill()
		verb.Wait()
		if err := r.check(); err != nil {
			t.Fatalf("round %d: %v", round+1, err)
		}
	}
	r.wantAll(from, file, key)
}

// The power fails at any moment of an import.
func TestPowerCutImport(t *testing.T) {
	from, file, key := bundled(t, 40)
	for _, option := range options[:rounds(2, len(options))] {
		d := newDisk(t, 512, option)
		r := newProxy(t, with{data: filepath.Join(d.mounted, "data")})
		for round := range rounds(1, 15) {
			r.start("--offline")
			r.ready()
			verb := r.command("import", file, "--key", key)
			if err := verb.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
			d.cut()
			r.kill()
			verb.Wait()
			d.restore()
			if err := r.check(); err != nil {
				t.Fatalf("%s, round %d: %v", option, round+1, err)
			}
		}
		r.wantAll(from, file, key)
		d.run("umount", d.mounted)
	}
}
