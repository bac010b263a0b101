package ledger_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// TestKilled kills a process that is adding records.
func TestKilled(t *testing.T) {
	if dir := os.Getenv("LEDGER_TEST_KILLED"); dir != "" {
		l, err := ledger.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := l.Tree().N; ; i++ {
			var err error
			if i%2 == 0 {
				err = l.Add(t.Context(), record(fmt.Sprintf("1.%d.0", i), "a"))
			} else {
				err = l.Decide(t.Context(), ledgertest.NewDecision(vpc, modproxy.Block, ""))
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("added %d\n", i)
		}
	}
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
		cmd.Env = append(os.Environ(), "LEDGER_TEST_KILLED="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		added, lines := -1, 0
		for s := bufio.NewScanner(out); s.Scan(); {
			if _, err := fmt.Sscanf(s.Text(), "added %d", &added); err != nil {
				t.Errorf("the process says %q", s.Text())
			}
			if lines++; lines == 10 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait() // the error is that of the kill
		l := mustOpen(t, dir)
		if n := int(l.Tree().N); n <= added || n > added+2 || lines < 10 {
			t.Errorf("round %d: %d records after %d were acknowledged", round, n, added+1)
		}
		l.Close()
	}
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	_, err := ledger.Open(dir)
	if !errors.Is(err, modproxy.ErrUnavailable) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second Open = %v", err)
	}
	mustAdd(t, l, record("1.0.0", "a"))
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := l.Add(t.Context(), record("1.1.0", "a")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Add to a closed log = %v", err)
	}
	if _, err := l.Lookup(t.Context(), vpc.At("1.0.0")); err == nil {
		t.Error("a closed log was read")
	}
	mustOpen(t, dir)
}
