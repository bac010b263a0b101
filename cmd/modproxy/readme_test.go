package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the README does to come from nothing to a list of what is allowed, a script does with the real clients, in the same
// order.
func TestReadmeAllowsWhatIsTrusted(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("testdata/script/policy-suggest.txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, _ := strings.Cut(string(readme), "\n## Allow only what you trust\n")
	_, transcript, _ := strings.Cut(chapter, "```console\n")
	transcript, _, _ = strings.Cut(transcript, "```")
	commands := regexp.MustCompile(`(?m)^\$ (modproxy [^>\n]*)`).FindAllStringSubmatch(transcript, -1)
	if len(commands) < 3 {
		t.Fatalf("the chapter has %d commands", len(commands))
	}
	rest := string(script)
	for _, c := range commands {
		command := strings.TrimSpace(c[1])
		var found bool
		if _, rest, found = strings.Cut(rest, "\n"+command+"\n"); !found {
			t.Errorf("the script does not run %q after the commands before it", command)
		}
	}
}
