package app

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/reference/log-events.md")

const eventsFile = "../docs/reference/log-events.md"

const eventsHead = `<!-- go test ./app -run TestReference -update writes this page. -->

# Log events

The log is JSON on standard error, one event in a line. ` + "`log.level`" + ` sets the lowest level that is written. Each line has
` + "`level`, `time` and `message`" + `, the name of the event. ` + "`module`, `version` and `platform`" + ` say what it is about, and ` + "`error`" + `
what went wrong: a failure is at least at level ` + "`warn`" + `. Secrets, tokens and queries are never logged.
`

// TestReference derives docs/reference/log-events.md from eventGroups; go test -update writes it.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString(eventsHead)
	for _, g := range eventGroups {
		fmt.Fprintf(&b, "\n## %s\n\n| `message` | level | when | fields |\n|---|---|---|---|\n", g.title)
		for _, e := range g.events {
			fields := ""
			if e.fields != "" {
				fields = "`" + strings.ReplaceAll(e.fields, " ", "`, `") + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", e.name, e.level, e.when, fields)
		}
	}
	if *update {
		if err := os.WriteFile(eventsFile, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(eventsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := diff.Diff(string(text), b.String()); diff != "" {
		t.Fatalf("%s: -is +derived (go test -update writes it)\n%s", eventsFile, diff)
	}
}

// Names of events in the source: of calls, and of the kinds of events that other packages report.
var (
	loggedName = regexp.MustCompile(`\b(?:logEvent|logOutcome|logVersion|warn)\((?:\w+\.log, )?"([a-z_]+)",`)
	kindName   = regexp.MustCompile(`\b(?:Event)?Kind += "([a-z]+_[a-z_]+|evicted)"`)
	ledgerName = regexp.MustCompile(`\bKind += "([a-z]+)"`)
)

// TestEvents checks that eventGroups has the events that the source logs, and no others.
func TestEvents(t *testing.T) {
	logged := map[string]bool{"request": true} // by package httpx
	find := func(dir string, re *regexp.Regexp, prefix string) {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", dir, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range re.FindAllStringSubmatch(string(text), -1) {
				logged[prefix+m[1]] = true
			}
		}
	}
	find("app", loggedName, "")
	find("cache", kindName, "")
	find("store", kindName, "")
	find("ledger", ledgerName, "ledger_")
	for _, other := range []string{"stale_served", "ledger_moved", "ledger_unasked"} { // counted only, or logged as ledger_recheck
		if !logged[other] {
			t.Errorf("there is no kind %s any more", other)
		}
		delete(logged, other)
	}
	for name := range levels {
		if !logged[name] {
			t.Errorf("nothing logs %s", name)
		}
		delete(logged, name)
	}
	for name := range logged {
		t.Errorf("eventGroups does not have %s", name)
	}
}
