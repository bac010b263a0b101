package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// firstWords are the words that the first line of a help may begin with.
var firstWords = strings.Fields(`Accept Add Allow Block Cache Check Complete Create Download End Explain Import List Make Mark Print Record Reject
	Remove Replace Request Restore Revoke Run Show Sign Write`)

// TestHelp checks the help of every verb and group: what it does in the first line, examples of itself, and at most 80 columns.
func TestHelp(t *testing.T) {
	root := newRootCommand(&environment{})
	var all []*cobra.Command
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		all = append(all, cmd)
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(root)
	if len(all) < 40 {
		t.Errorf("%d verbs", len(all))
	}
	for _, cmd := range all {
		path := cmd.CommandPath()
		t.Run(path, func(t *testing.T) {
			got := command(t, nil, append(strings.Fields(path)[1:], "--help")...)
			if got.code != exitDone || got.stderr != "" {
				t.Fatalf("exit code %d: %s", got.code, got.stderr)
			}
			for line := range strings.Lines(got.stdout) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			first, _, _ := strings.Cut(got.stdout, "\n")
			if word, _, _ := strings.Cut(first, " "); strings.HasSuffix(first, ".") || !slices.Contains(firstWords, strings.TrimSuffix(word, ",")) {
				t.Errorf("the first line is %q", first)
			}
			if _, group := cmd.Annotations[isGroup]; !group && !strings.Contains(got.stdout, "\nExamples:\n  ") {
				t.Error("no examples")
			}
			for line := range strings.Lines(cmd.Example) {
				if !strings.HasPrefix(line, "  ") {
					t.Errorf("an example is not indented: %q", line)
				}
			}
			if cmd != root && cmd.Example != "" && !strings.Contains(cmd.Example, path) {
				t.Errorf("the examples are of another verb: %s", cmd.Example)
			}
			if cmd.HasParent() && cmd.Parent() == root && cmd.GroupID == "" {
				t.Error("it is in no group")
			}
		})
	}
	help := command(t, nil, "help").stdout
	for _, cmd := range root.Commands() {
		if !strings.Contains(help, "\n  "+cmd.Name()+" ") {
			t.Errorf("the help does not list %s", cmd.Name())
		}
	}
}
