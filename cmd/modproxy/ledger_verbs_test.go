package main

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/admin"
	"github.com/modproxy/modproxy/internal/versionname"
)

// A printed command does exactly what it says, for any name that a publisher gives to a directory.
func TestDriftIsQuoted(t *testing.T) {
	d := admin.Drift{Name: versionname.Name{Module: "registry.example.com/acme/network/aws", Version: "1.0.0"}, Open: true}
	d.Offered, d.Subdir = "h1:x=", "x;touch${IFS}y;#"
	if want := `--sum h1:x= --subdir 'x;touch${IFS}y;#' --reason …`; !strings.Contains(driftText(d), want) {
		t.Errorf("%s has no %s", driftText(d), want)
	}
}

// For a record that contradicts another spelling of its address, the observation shows both.
func TestDriftNamesBothSpellings(t *testing.T) {
	d := admin.Drift{Name: versionname.Name{Module: "registry.example.com/Acme/network/aws", Version: "1.0.0"}, Open: true, As: "registry.example.com/acme/network/aws"}
	d.Recorded, d.Offered = "h1:x=", "h1:y="
	const want = "registry.example.com/Acme/network/aws 1.0.0\n  recorded:   h1:x= as registry.example.com/acme/network/aws\n  offered:    h1:y=\n"
	if text := driftText(d); !strings.HasPrefix(text, want) {
		t.Errorf("%s\nwant %s", text, want)
	}
}
