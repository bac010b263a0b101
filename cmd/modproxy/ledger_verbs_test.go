package main

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
)

// What is printed as a command does what it says and nothing else, whatever a
// publisher calls a directory.
func TestDriftIsQuoted(t *testing.T) {
	d := admin.Drift{Name: admin.Name{Module: "registry.example.com/acme/network/aws", Version: "1.0.0"}, Open: true}
	d.Offered, d.Subdir = "h1:x=", "x;touch${IFS}y;#"
	if want := `--sum h1:x= --subdir 'x;touch${IFS}y;#' --reason …`; !strings.Contains(driftText(d), want) {
		t.Errorf("%s has no %s", driftText(d), want)
	}
}
