package main

import (
	"strings"
	"testing"
)

// What is printed as a command does what it says and nothing else, whatever a
// publisher calls a directory.
func TestDriftIsQuoted(t *testing.T) {
	d := ledgerDrift{Module: "registry.example.com/acme/network/aws", Version: "1.0.0", Offered: "h1:x=", Subdir: "x;touch${IFS}y;#", Open: true}
	if want := `--sum h1:x= --subdir 'x;touch${IFS}y;#' --reason …`; !strings.Contains(d.String(), want) {
		t.Errorf("%s has no %s", d, want)
	}
}
