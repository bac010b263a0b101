package main

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
)

// What is printed as a command does what it says and nothing else, whatever a
// publisher calls a directory.
func TestDriftIsQuoted(t *testing.T) {
	d := admin.Drift{Module: "registry.example.com/acme/network/aws", Version: "1.0.0", Offered: "h1:x=", Subdir: "x;touch${IFS}y;#", Open: true}
	if want := `--sum h1:x= --subdir 'x;touch${IFS}y;#' --reason …`; !strings.Contains(driftText(d), want) {
		t.Errorf("%s has no %s", driftText(d), want)
	}
}
