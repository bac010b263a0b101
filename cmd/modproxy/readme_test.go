package main_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// What the README does in a chapter, a script does with the real clients, in the same order: it runs the commands, and
// compares all that the chapter has of their output with what they print.
func TestReadmeTranscripts(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, name := range map[string]string{
		"Allow only what you trust": "policy-suggest", // from nothing to a list of what is allowed
		"Air gap":                   "air-gap",
		"Providers":                 "providers-readme",
	} {
		script, err := os.ReadFile("testdata/script/" + name + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		_, chapter, _ := strings.Cut(string(readme), "\n## "+title+"\n")
		chapter, _, _ = strings.Cut(chapter, "\n## ")
		rest, commands := string(script), 0
		for _, transcript := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(chapter, -1) {
			for line := range strings.Lines(transcript[1]) {
				want := output(strings.TrimSpace(line))
				if command, ok := strings.CutPrefix(line, "$ "); ok {
					command, _, _ = strings.Cut(command, ">")
					command, _, _ = strings.Cut(command, " #")
					want = "\n" + strings.TrimSpace(command) + "\n"
					if client, ok := strings.CutPrefix(want, "\nterraform -chdir="); ok {
						dir, verb, _ := strings.Cut(strings.TrimSpace(client), " ")
						want = "\nclient " + verb + " " + dir + "\n"
					}
					commands++
				}
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("%s: after what is before it in the chapter, the script does not have %q", name, want)
					continue
				}
				rest = "\n" + after
			}
		}
		if commands < 3 {
			t.Errorf("the chapter %q has %d commands", title, commands)
		}
	}
}

// differs finds what is not the same each time, in output that stands in the README: sizes, and hashes and keys cut short.
var differs = regexp.MustCompile(`[0-9.\\]+[KM]iB|[0-9a-f]+(\\\+\w+)?…`)

// output is how a script compares a line of output.
func output(line string) string {
	line = regexp.QuoteMeta(strings.ReplaceAll(line, "registry.example.com", "registry.acme.example"))
	return " '^" + differs.ReplaceAllLiteralString(line, ".*") + "$'\n"
}
