package doctor_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/doctor"
)

var update = flag.Bool("update", false, "write docs/reference/doctor.md")

const referencePage = "../docs/reference/doctor.md"

// TestReference compares the page of findings with the kinds. With -update it writes the page.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<!-- go test ./doctor -run TestReference -update writes this page. -->

# Findings of modproxy doctor

` + "[`modproxy doctor`](../how-to/doctor.md) prints a line for each finding: severity, name, subject and cause. The next line is the hint." + `
An error means that clients fail or will fail. A warning means that clients may fail, or that something is less safe than it should be.

| name | severity | meaning | what to do |
|---|---|---|---|
`)
	seen := map[string]bool{}
	for _, k := range doctor.Kinds() {
		if seen[k.Name] || k.Meaning == "" || k.Remedy == "" {
			t.Errorf("%+v is incomplete, or there twice", k)
		}
		seen[k.Name] = true
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Name, k.Severity, k.Meaning, strings.ReplaceAll(k.Remedy, "SUBJECT", "the subject"))
	}
	if *update {
		if err := os.WriteFile(referencePage, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(referencePage); err != nil || string(text) != b.String() {
		t.Errorf("%s differs from the kinds (%v): go test ./doctor -run TestReference -update writes it", referencePage, err)
	}
}
