package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is printed to testdata/golden, and the reference to docs")

// packageDir is the working directory at the start. A test may change it.
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
