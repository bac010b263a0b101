package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is printed to testdata/golden")

// packageDir is where the tests start; one of them may have gone elsewhere.
var packageDir, _ = os.Getwd()

// golden compares got with a file of testdata/golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join(packageDir, "testdata", "golden", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got (go test -update writes it)\n%s", name, diff)
	}
}

// What verbs say of themselves.
func TestHelp(t *testing.T) {
	for _, verb := range []string{
		"approve", "block", "decisions", "deprecate", "mirror", "missing", "pending", "policy", "policy check",
		"policy report",
		"policy test", "reject", "unblock",
	} {
		got := command(t, nil, append([]string{"help"}, strings.Fields(verb)...)...)
		if got.code != exitDone || got.stderr != "" {
			t.Errorf("%s: exit code %d: %s", verb, got.code, got.stderr)
		}
		golden(t, "help."+strings.ReplaceAll(verb, " ", "-"), got.stdout)
	}
}
