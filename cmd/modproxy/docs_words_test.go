package main_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/ledger"
)

var (
	// verbIn finds a command of modproxy in a line.
	verbIn     = regexp.MustCompile("(?:^|`|\\$ |\\s)modproxy((?: [a-z][a-z-]*)+)((?: [^`|;#]*)?)")
	inlineVerb = regexp.MustCompile("`modproxy [^`]+`")
	flagIn     = regexp.MustCompile(`(?:^|[\s\[])(--[a-z][a-z-]*)`)
)

// TestDocsVerbs checks that the verbs and flags of modproxy in pages exist.
func TestDocsVerbs(t *testing.T) {
	build(t)
	helps := map[string]string{}
	help := func(words []string) string {
		key := strings.Join(words, " ")
		if _, ok := helps[key]; !ok {
			out, err := exec.Command(built, append(slices.Clone(words), "--help")...).Output()
			if err != nil {
				t.Fatal(err)
			}
			helps[key] = string(out)
		}
		return helps[key]
	}
	for _, p := range append(docPages(t), readPage(t, "SECURITY.md")) {
		prose := p.prose()
		for i, line := range p.lines {
			spans := inlineVerb.FindAllString(line, -1)
			if prose[i] == "" {
				spans = commandIn(line)
			}
			for _, span := range spans {
				m := verbIn.FindStringSubmatch(span)
				if m == nil {
					continue
				}
				words, text := strings.Fields(m[1]), ""
				for n := len(words); n > 0; n-- { // the longest beginning that is a verb: the rest are arguments
					text = help(words[:n])
					if strings.Contains(text, "\n  modproxy "+strings.Join(words[:n], " ")) {
						break
					}
					text = ""
				}
				if text == "" {
					t.Errorf("%s:%d: modproxy has no verb %q", p.name, i+1, m[1])
					continue
				}
				for _, flag := range flagIn.FindAllStringSubmatch(span, -1) {
					if !strings.Contains(text, flag[1]+" ") {
						t.Errorf("%s:%d: modproxy%s has no flag %s", p.name, i+1, m[1], flag[1])
					}
				}
			}
		}
	}
}

// commandIn returns the command of modproxy in a line of a block, if it is one.
func commandIn(line string) []string {
	line = strings.TrimPrefix(strings.ReplaceAll(line, "go run ./cmd/modproxy", "modproxy"), "$ ")
	if strings.HasPrefix(line, "modproxy ") {
		return []string{line}
	}
	return nil
}

// TestDocsConfigurations checks that modproxy reads every YAML block of a page, as a configuration or as a file of rules. The comment
// in the line before the block of another program's file is
//
//	<!-- file of: PROGRAM -->
func TestDocsConfigurations(t *testing.T) {
	read := 0
	for _, p := range docPages(t) {
		for _, b := range p.blocks() {
			if b.language != "yaml" || strings.HasPrefix(b.marker, "file of: ") {
				continue
			}
			name := filepath.Join(t.TempDir(), "modproxy.yaml")
			if err := os.WriteFile(name, []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var err error
			if strings.HasPrefix(b.lines[0], "rules:") {
				_, err = config.ReadRules(name)
			} else {
				_, err = config.Read(name, nil, nil)
			}
			if err != nil {
				t.Errorf("%s:%d: %v", p.name, b.line, err)
			}
			read++
		}
	}
	if read < 20 {
		t.Errorf("%d configurations were read", read)
	}
}

var verifierKey = regexp.MustCompile(`[\w.-]+\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+`)

// TestDocsKeys checks that modproxy accepts the verifier keys that pages and the example of the configuration show. The pages include
// the help of all verbs.
func TestDocsKeys(t *testing.T) {
	found := 0
	for _, p := range append(docPages(t), readPage(t, "SECURITY.md"), readPage(t, "config.example.yaml")) {
		for i, line := range p.lines {
			for _, key := range verifierKey.FindAllString(line, -1) {
				if _, err := ledger.Verifiers(key); err != nil {
					t.Errorf("%s:%d: %v", p.name, i+1, err)
				}
				found++
			}
		}
	}
	if found < 5 {
		t.Errorf("%d keys were found", found)
	}
}

var metricName = regexp.MustCompile(`(?:counter|gauge)\("([a-z_]+)"|Name: "modproxy_([a-z_]+)"`)

// namesIn returns the names that a group of re matches in the Go files of packages, without tests.
func namesIn(t *testing.T, re *regexp.Regexp, packages ...string) []string {
	t.Helper()
	var found []string
	for _, dir := range packages {
		files, err := filepath.Glob(filepath.Join(top, dir, "*.go"))
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
				found = append(found, strings.Join(m[1:], ""))
			}
		}
	}
	return found
}

// TestDocsNames checks that docs/reference/metrics.md has every metric.
func TestDocsNames(t *testing.T) {
	metrics := namesIn(t, metricName, "proxy", "httpx")
	page := strings.Join(readPage(t, "docs/reference/metrics.md").lines, "\n")
	for _, name := range metrics {
		if !strings.Contains(page, "`modproxy_"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not have modproxy_%s", name)
		}
	}
	if len(metrics) < 20 {
		t.Errorf("%d metrics were found", len(metrics))
	}
}

// quoted finds what stands in backquotes in the first cell of a row.
var quoted = regexp.MustCompile("`[^`]+`")

// TestDocsWords checks that programs print the words in backquotes at the beginning of a row, in docs/troubleshooting.md and under the
// headings "If it fails". The words must be in docs/reference/reasons.md, which records the output of clients, in a script, or in the
// source of modproxy.
func TestDocsWords(t *testing.T) {
	var said bytes.Buffer
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".txtar" || filepath.Ext(path) == ".go" && !strings.HasPrefix(d.Name(), "docs_") || filepath.Base(path) == "reasons.md") {
			var text []byte
			text, err = os.ReadFile(path)
			said.WriteString(oneSpace.ReplaceAllString(strings.ReplaceAll(string(text), `\`, ""), " "))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, p := range docPages(t) {
		fails := p.name == "docs/troubleshooting.md"
		for i, line := range p.prose() {
			if m := headingLine.FindStringSubmatch(line); m != nil && p.name != "docs/troubleshooting.md" {
				fails = m[1] == "If it fails"
			}
			cells := strings.Split(line, "|")
			if !fails || len(cells) < 4 {
				continue
			}
			for _, words := range quoted.FindAllString(cells[1], -1) {
				rows++
				for part := range strings.SplitSeq(strings.Trim(words, "`"), "…") {
					if !strings.Contains(said.String(), strings.TrimSpace(part)) {
						t.Errorf("%s:%d: no program is known to print %q", p.name, i+1, part)
					}
				}
			}
		}
	}
	if rows < 40 {
		t.Errorf("%d rows were read", rows)
	}
}

// oneSpace finds white space, written as in a text or as in an expression.
var oneSpace = regexp.MustCompile(`(\s|s\+)+`)
