package main_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/modproxy/modproxy/test/rig"
)

var updateReasons = flag.Bool("update-reasons", false, "write what the clients print into docs/reference/reasons.md")

const (
	reasonsFile  = "../../docs/reference/reasons.md"
	reasonsBegin = "<!-- what follows is written by: go test ./cmd/modproxy -run TestReasons -update-reasons -->\n"
)

// TestReasons compares docs/reference/reasons.md with the output of the real clients for denials and failures behind nginx, over HTTP/1.1
// and HTTP/2. The scripts in testdata/reasons cause them. In the short form, two of the scripts run, each with one client.
func TestReasons(t *testing.T) {
	t.Parallel()
	clients := rig.Clients(t)
	if len(clients) < 2 {
		rig.Missing(t, "without Terraform or OpenTofu: %v", clients)
	}
	if ok, err := available(t, "nginx", "-v"); !ok {
		rig.Missing(t, "there is no nginx: %v", err)
	}
	build(t)
	scripts, err := filepath.Glob(filepath.Join("testdata", "reasons", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	some := !rig.Long() && !*updateReasons
	if some { // a policy with Terraform, and a registry that fails with OpenTofu
		scripts = slices.DeleteFunc(scripts, func(s string) bool { return !strings.Contains(s, "2-") && !strings.Contains(s, "4-") })
	}
	byClient := map[string][]string{}
	for _, script := range scripts {
		names := slices.Sorted(maps.Keys(clients))
		if some {
			names = chosen(script, names)
		}
		for _, name := range names {
			byClient[name] = append(byClient[name], script)
		}
	}
	t.Run("scripts", func(t *testing.T) {
		for name, list := range byClient {
			t.Run(name, func(t *testing.T) { t.Parallel(); runScripts(t, list, name, clients[name]) })
		}
	})
	if t.Failed() {
		return
	}
	page, err := os.ReadFile(reasonsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, written, ok := strings.Cut(string(page), reasonsBegin)
	if !ok {
		t.Fatalf("%s has no place for the tables", reasonsFile)
	}
	if some {
		if len(printed.rows) != len(scripts) {
			t.Errorf("%d of %d scripts have rows", len(printed.rows), len(scripts))
		}
		printed.compare(t, written)
		return
	}
	var table strings.Builder
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(string(text), "# "), "\n")
		table.WriteString(printed.table(title, strings.TrimSuffix(filepath.Base(script), ".txtar")))
	}
	switch {
	case *updateReasons:
		if err := os.WriteFile(reasonsFile, []byte(before+reasonsBegin+table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	case written != table.String():
		t.Errorf("%s is not what the clients print; -update-reasons writes it:\n%s", reasonsFile, differing(written, table.String()))
	}
}

// differing returns the lines that are in only one of two texts.
func differing(written, now string) string {
	var b strings.Builder
	for _, side := range []struct{ mark, text, other string }{{"-", written, now}, {"+", now, written}} {
		for line := range strings.Lines(side.text) {
			if !strings.Contains(side.other, line) {
				b.WriteString(side.mark + line)
			}
		}
	}
	return b.String()
}

// reason is a row of docs/reference/reasons.md: the output of clients for one denial or failure.
type reason struct {
	title string
	cure  string               // shows the reason if a client does not print it; may be empty
	texts map[string][2]string // by client: over HTTP/1.1 and over HTTP/2
}

// reasons are the rows of each script, in order.
type reasons struct {
	mu   sync.Mutex
	rows map[string][]*reason
}

var printed reasons

// add adds the output of a client to the row with that title.
func (p *reasons) add(script, title, cure, client string, texts [2]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, row := range p.rows[script] {
		if row.title == title {
			row.texts[client] = texts
			return
		}
	}
	if p.rows == nil {
		p.rows = map[string][]*reason{}
	}
	p.rows[script] = append(p.rows[script], &reason{title, cure, map[string][2]string{client: texts}})
}

// table returns the rows of a script.
func (p *reasons) table(title, script string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n| what happened | client | by HTTP/1.1 | by HTTP/2 | if the reason is missing |\n|---|---|---|---|---|\n", title)
	for _, row := range p.rows[script] {
		if row.texts["terraform"] == row.texts["tofu"] {
			b.WriteString(row.line("both", row.texts["tofu"]))
			continue
		}
		for _, client := range []string{"terraform", "tofu"} {
			b.WriteString(row.line(displayed[client], row.texts[client]))
		}
	}
	return b.String()
}

// displayed are the names of the clients in the table.
var displayed = map[string]string{"terraform": "Terraform", "tofu": "OpenTofu"}

// line returns the line of a row with the texts of one client, or of both.
func (r *reason) line(client string, texts [2]string) string {
	second := inTable(texts[1])
	if texts[0] == texts[1] {
		second = "the same"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.title, client, inTable(texts[0]), second, cmp.Or(r.cure, "—"))
}

// compare checks that the page has each line of the clients that ran.
func (p *reasons) compare(t *testing.T, page string) {
	t.Helper()
	for _, rows := range p.rows {
		for _, row := range rows {
			for client, texts := range row.texts {
				if line := row.line(displayed[client], texts); !strings.Contains(page, line) && !strings.Contains(page, row.line("both", texts)) {
					t.Errorf("%s does not have what the clients print; -update-reasons writes it:\n%s", reasonsFile, line)
				}
			}
		}
	}
}

// inTable returns a client's text as a cell.
func inTable(text string) string {
	return "`" + strings.NewReplacer("|", `\|`, "`", "'").Replace(text) + "`"
}

// runFronts starts two nginx before modproxy, until the script ends: what "row" asks.
func runFronts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: fronts")
	}
	for _, protocol := range []string{"http1", "http2"} {
		runFront(ts, false, []string{protocol})
		ts.Setenv("FRONT_"+protocol, ts.Getenv("FRONT"))
	}
}

// runRow has the client fail behind both fronts, and wants to see the reason: in what the client prints, unless a cure says what
// shows it instead, and in modproxy's log.
func runRow(ts *testscript.TestScript, neg bool, args []string) {
	const usage = "usage: row [-http1 CURE|-words CURE] [-unlogged] [-varies] [-mirror] TITLE get|init DIR REASON"
	var through []string
	lost, cure, inLog, varies := 2, "", true, false // the first protocol by which the reason is lost
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-unlogged":
			inLog, args = false, args[1:]
			continue
		case "-mirror":
			through, args = args[:1], args[1:]
			continue
		case "-varies":
			varies, args = true, args[1:]
			continue
		case "-http1":
			lost = 1
		case "-words":
			lost = 0
		default:
			ts.Fatalf(usage)
		}
		cure, args = args[1], args[2:]
	}
	if neg || len(args) != 4 {
		ts.Fatalf(usage)
	}
	w, title, want := worldOf(ts), args[0], args[3]
	var texts [2]string
	for i, protocol := range []string{"http1", "http2"} {
		ts.Check(w.configureClient(ts, ts.Getenv("FRONT_"+protocol)))
		begin := len(w.log())
		runClient(ts, true, slices.Concat(through, args[1:3]))
		said := oneLine(ts)
		if shows := strings.Contains(said, want); shows != (i < lost) {
			ts.Fatalf("%s by %s: the client prints %q: %v\n%s", title, protocol, want, shows, said)
		}
		if texts[i] = w.cell(ts); varies {
			texts[i] = map[bool]string{true: "… " + want + " …", false: "the number of the status"}[i < lost]
		}
		for end := time.Now().Add(patience); inLog && !logHas(w.log()[begin:], want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				ts.Fatalf("%s by %s: no %q in the log\n%s", title, protocol, want, w.log()[begin:])
			}
		}
	}
	printed.add(ts.Name(), title, cure, w.tool, texts)
}

// logHas reports whether a request in the log ended with an error that has text in it.
func logHas(log []byte, text string) bool {
	for line := range strings.Lines(string(log)) {
		var event struct{ Error string }
		if json.Unmarshal([]byte(line), &event) == nil && strings.Contains(event.Error, text) {
			return true
		}
	}
	return false
}

var (
	heading    = regexp.MustCompile(`(?m)^ *((?:Error|Warning): .*\S)\s*\n`)
	excerpt    = regexp.MustCompile(`(?m)^ +on \S+ line [0-9]+.*:\n( +[0-9]+: .*\n)+`)
	address    = regexp.MustCompile(`127\.0\.0\.[0-9]+:[0-9]+`)
	byOperator = regexp.MustCompile(`by operator [^ :;]+`)
	tokenID    = regexp.MustCompile(`\(([a-z2-7]{8,})\)`)
	times      = regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}([ T][0-9:]{5,8}(Z| UTC)?)?`)
	durations  = regexp.MustCompile(`\b([0-9]+h)?([0-9]+m)?[0-9]+(\.[0-9]+)?s\b`)
	triedAt    = regexp.MustCompile(`tried TIME ago, and again in TIME|tried TIME ago, and being tried again`)
	triedOnce  = regexp.MustCompile(` \(tried TIME ago\)`)
	temporary  = regexp.MustCompile(`/tmp/\S+/`)
)

// cell returns what the client has printed of its errors, in one line, with names for what differs from run to run.
func (w *world) cell(ts *testscript.TestScript) string {
	text := excerpt.ReplaceAllString(border.Replace(ts.ReadFile("stdout")+ts.ReadFile("stderr")), "")
	if at := heading.FindStringIndex(text); at != nil {
		text = heading.ReplaceAllString(text[at[0]:], "$1: ")
	}
	text = strings.Join(strings.Fields(text), " ")
	names := []string{w.dir, "$WORK", ts.Getenv("OS_ARCH"), "$OS_ARCH", ts.Getenv("PLATFORM"), "$PLATFORM"}
	for _, front := range []string{"FRONT_http1", "FRONT_http2"} {
		names = append(names, ts.Getenv(front), "$PROXY", strings.TrimPrefix(ts.Getenv(front), "https://"), "$PROXY")
	}
	if w.issuer != nil {
		names = append(names, w.issuer.URL, "$ISSUER_URL")
	}
	for name, u := range w.upstreams {
		names = append(names, u.URL, "$"+strings.ToUpper(name)+"_URL", u.Host, "$"+strings.ToUpper(name)+"_HOST")
	}
	text = strings.NewReplacer(names...).Replace(text)
	for _, r := range []struct {
		from *regexp.Regexp
		to   string
	}{
		{hexadecimal, "HEX"}, {times, "DATE"}, {durations, "TIME"}, {triedAt, "to be tried again in TIME"},
		{triedOnce, ""}, {tokenID, "(ID)"}, {byOperator, "by operator NAME"}, {address, "ADDRESS"}, {temporary, ""},
	} {
		text = r.from.ReplaceAllString(text, r.to)
	}
	return text
}
