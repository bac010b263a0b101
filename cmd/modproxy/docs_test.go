package main_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/modproxy/modproxy/config"
)

// top is the directory of the module, as the tests of this package see it.
const top = "../.."

// maxReadme is the number of lines that the README may have: everything else belongs to a page of docs.
const maxReadme = 250

// page is a Markdown file: its path below the top, and its lines.
type page struct {
	name  string
	lines []string
}

// docPages returns the README and the pages of docs.
func docPages(t *testing.T) []page {
	t.Helper()
	names := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			path, err = filepath.Rel(top, path)
			names = append(names, filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var pages []page
	for _, name := range names {
		pages = append(pages, readPage(t, name))
	}
	return pages
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return page{name, strings.Split(string(text), "\n")}
}

// codeBlock is a fenced block of a page, with the comment in the line before it.
type codeBlock struct {
	language, marker string
	line, indent     int // of the opening fence
	lines            []string
}

// blocks returns the fenced blocks of the page, in order.
func (p page) blocks() []codeBlock {
	var blocks []codeBlock
	open := false
	for i, line := range p.lines {
		language, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !open:
			b := codeBlock{language: language, line: i + 1, indent: len(line) - len(strings.TrimLeft(line, " "))}
			if i > 0 {
				b.marker, _ = strings.CutPrefix(strings.TrimSpace(p.lines[i-1]), "<!-- ")
				b.marker, _ = strings.CutSuffix(b.marker, " -->")
			}
			blocks, open = append(blocks, b), true
		case fence:
			open = false
		case open:
			b := &blocks[len(blocks)-1]
			b.lines = append(b.lines, line[min(b.indent, len(line)):])
		}
	}
	return blocks
}

// prose returns the lines of the page outside of fenced blocks; the others are empty.
func (p page) prose() []string {
	lines := slices.Clone(p.lines)
	open := false
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		if fence {
			open = !open
		}
		if fence || open {
			lines[i] = ""
		}
	}
	return lines
}

// step is one command of a block with the output that the block shows for it.
type step struct {
	command string
	output  []string
}

// steps splits a block into its commands. In a console block commands begin with "$ ", and the other lines are output. In a
// shell block every line is a command. The body of a here-document is returned as the output of a command "file".
func (b codeBlock) steps() []step {
	var steps []step
	end := "" // the word that ends a here-document
	for _, line := range b.lines {
		command, isCommand := line, true
		if b.language == "console" {
			command, isCommand = strings.CutPrefix(line, "$ ")
		}
		last := len(steps) - 1
		switch trimmed := strings.TrimSpace(command); {
		case end != "" && trimmed == end:
			end = ""
		case end != "":
			steps[last].output = append(steps[last].output, line)
		case last >= 0 && strings.HasSuffix(steps[last].command, `\`):
			steps[last].command = strings.TrimSuffix(steps[last].command, `\`) + trimmed
		case trimmed == "" || isCommand && strings.HasPrefix(trimmed, "#"):
		case isCommand:
			steps = append(steps, step{command: trimmed})
			if m := hereDocument.FindStringSubmatch(trimmed); m != nil {
				steps[last+1].command, end = "file", m[1]
			}
		case last >= 0 && trimmed != "…":
			steps[last].output = append(steps[last].output, line)
		}
	}
	return steps
}

var (
	hereDocument = regexp.MustCompile(`<<'?(\w+)'?$`)
	remark       = regexp.MustCompile(`\s+#\s.*$`)
	redirection  = regexp.MustCompile(`\s+>\s*\S+$`)
	pipe         = regexp.MustCompile(`\s+\| jq .*$`)
	chdir        = regexp.MustCompile(`^(?:terraform|tofu)(?: -chdir=(\S+))? (\w+)(.*)$`)
	curl         = regexp.MustCompile(`^curl .*?(https?://[^\s']+)`)
	setting      = regexp.MustCompile(`^export (\w+)=.*`)
	prefixes     = regexp.MustCompile(`^(\[\S+\] |! |exec )+`)
	expectation  = regexp.MustCompile(`^(?:stdout|stderr|tells|logged) (?:-\S+ )*'(.*)'$`)
	comparison   = regexp.MustCompile(`^cmp (?:stdout|stderr) (\S+)$`)
)

// names maps names of the pages to those of the scripts.
var names = strings.NewReplacer("registry.example.com", "registry.acme.example", "go run ./cmd/modproxy", "modproxy",
	"http://127.0.0.1:8080", "https://modules.example.com", "$PROXY", "https://modules.example.com", "$HOME/", "", "~/", "")

// asInScript returns how a script has a command of a page.
func asInScript(command string) string {
	command = remark.ReplaceAllString(command, "")
	command = pipe.ReplaceAllString(command, "")
	command = redirection.ReplaceAllString(command, "")
	command = names.Replace(strings.TrimSuffix(command, " &"))
	if m := chdir.FindStringSubmatch(command); m != nil {
		dir := m[1]
		if dir == "" {
			dir = "."
		}
		command = "client " + m[2] + " " + dir + m[3]
	}
	if m := curl.FindStringSubmatch(command); m != nil {
		return "get " + m[1]
	}
	if m := setting.FindStringSubmatch(command); m != nil {
		return "set " + m[1]
	}
	return strings.TrimSpace(command)
}

// anyWord stands for a word of a command that is not the same each time.
const anyWord = "\x00"

var (
	inShell       = regexp.MustCompile(`^sh -c '"\$MODPROXY"(.*)'$`)
	variable      = regexp.MustCompile(`'\$\(cat \w+\)'|\$[A-Z_]+`)
	scriptGet     = regexp.MustCompile(`^get .*?(https?://[^\s']+)'?$`)
	scriptSetting = regexp.MustCompile(`^(?:env (\w+)=|(?:token|issuer sign) (\w+) ).*`)
)

// asInPage is the reverse of asInScript, for a line of a script. What the script has in a variable or a file, such as a key,
// becomes anyWord.
func asInPage(line string) string {
	line = names.Replace(strings.TrimSuffix(prefixes.ReplaceAllString(line, ""), " &"))
	if m := inShell.FindStringSubmatch(line); m != nil {
		line = strings.ReplaceAll("modproxy"+m[1], `"`, "'")
	}
	line = variable.ReplaceAllString(line, anyWord)
	if m := scriptGet.FindStringSubmatch(line); m != nil {
		return "get " + m[1]
	}
	if m := scriptSetting.FindStringSubmatch(line); m != nil {
		return "set " + m[1] + m[2]
	}
	return line
}

// transcript is a script, read from its beginning for the commands of one page.
type transcript struct {
	lines []string
	at    int // the line after the last command or output that was found
	files map[string]string
}

func readTranscript(name string) (*transcript, error) {
	archive, err := txtar.ParseFile(filepath.Join("testdata", "script", name+".txtar"))
	if err != nil {
		return nil, err
	}
	s := &transcript{lines: strings.Split(string(archive.Comment), "\n"), files: map[string]string{}}
	for _, f := range archive.Files {
		s.files[f.Name] = names.Replace(string(f.Data))
	}
	return s, nil
}

// run finds a command of a page behind the ones before it.
func (s *transcript) run(command string) bool {
	for i := s.at; i < len(s.lines); i++ {
		line := strings.ReplaceAll(regexp.QuoteMeta(asInPage(s.lines[i])), anyWord, `\S+`)
		if ok, err := regexp.MatchString("^"+line+"$", command); ok && err == nil {
			s.at = i + 1
			return true
		}
	}
	return false
}

// prints reports whether the script wants a line of output: by an anchored expression that matches the line, or in a file with
// all of the output.
func (s *transcript) prints(line string) bool {
	line = names.Replace(line)
	for i := s.at; i < len(s.lines); i++ {
		want := strings.TrimSpace(s.lines[i])
		if m := comparison.FindStringSubmatch(want); m != nil && slices.ContainsFunc(strings.Split(s.files[m[1]], "\n"), func(has string) bool {
			return slices.Equal(strings.Fields(has), strings.Fields(line)) // columns may differ
		}) {
			return true
		}
		m := expectation.FindStringSubmatch(want)
		if m == nil || !strings.HasPrefix(m[1], "^") || !strings.HasSuffix(m[1], "$") {
			continue
		}
		re, err := regexp.Compile(names.Replace(m[1]))
		if err == nil && re.MatchString(line) && !re.MatchString("anything else") {
			s.at = i + 1
			return true
		}
	}
	return false
}

// hasFile reports whether a file of the script has these lines.
func (s *transcript) hasFile(lines []string) bool {
	text := names.Replace(strings.Join(lines, "\n"))
	return slices.ContainsFunc(slices.Collect(maps.Values(s.files)), func(f string) bool { return strings.Contains(f, text) })
}

// TestDocsCommands checks that a script runs every command that a page shows, with the real clients, in the same order, and
// compares the output that the page shows with what is printed. The comment in the line before a block names what runs it:
//
//	<!-- script: NAME -->     testdata/script/NAME.txtar
//	<!-- test: DIR -->        the tests in this directory, which read the page
//	<!-- not run: REASON -->  nothing, for this reason
func TestDocsCommands(t *testing.T) {
	run := 0
	for _, p := range docPages(t) {
		scripts := map[string]*transcript{}
		for _, b := range p.blocks() {
			at := fmt.Sprintf("%s:%d", p.name, b.line)
			if b.language == "" {
				t.Errorf("%s: the block has no language: text, if it is nothing else", at)
			}
			if !slices.Contains([]string{"console", "sh", "shell", "bash", "powershell"}, b.language) {
				continue
			}
			kind, value, _ := strings.Cut(b.marker, ": ")
			switch kind {
			case "not run":
				if len(strings.Fields(value)) < 3 {
					t.Errorf("%s: %q is no reason", at, value)
				}
				continue
			case "test":
				if _, err := os.Stat(filepath.Join(top, value)); err != nil {
					t.Errorf("%s: %v", at, err)
				}
				continue
			case "script":
			default:
				t.Errorf("%s: want <!-- script: NAME --> or <!-- not run: REASON --> before commands", at)
				continue
			}
			s := scripts[value]
			if s == nil {
				var err error
				if s, err = readTranscript(value); err != nil {
					t.Errorf("%s: %v", at, err)
					continue
				}
				scripts[value] = s
			}
			for _, step := range b.steps() {
				run++
				if step.command == "file" {
					if !s.hasFile(step.output) {
						t.Errorf("%s: script %s has no file with %q", at, value, step.output)
					}
					continue
				}
				if !s.run(asInScript(step.command)) {
					t.Errorf("%s: script %s does not run, behind the commands before it: %s", at, value, asInScript(step.command))
					continue
				}
				for _, line := range step.output {
					if !s.prints(line) {
						t.Errorf("%s: script %s does not compare: stdout '^%s$'", at, value, regexp.QuoteMeta(names.Replace(line)))
					}
				}
			}
		}
	}
	if run < 50 {
		t.Errorf("%d commands are run", run)
	}
}

var (
	// verbIn finds a command of modproxy in a line.
	verbIn     = regexp.MustCompile("(?:^|`|\\$ |\\s)modproxy((?: [a-z][a-z-]*)+)((?: [^`|;#]*)?)")
	inlineVerb = regexp.MustCompile("`modproxy [^`]+`")
	flagIn     = regexp.MustCompile(`(?:^|[\s\[])(--[a-z][a-z-]*)`)
)

// TestDocsVerbs checks that every verb and flag of modproxy exists that a page names.
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

// commandIn returns the command of modproxy that a line of a block is.
func commandIn(line string) []string {
	line = strings.TrimPrefix(strings.ReplaceAll(line, "go run ./cmd/modproxy", "modproxy"), "$ ")
	if strings.HasPrefix(line, "modproxy ") {
		return []string{line}
	}
	return nil
}

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code        = regexp.MustCompile("`[^`]*`")
	headingLine = regexp.MustCompile(`^#{1,6} (.*)$`)
	dropped     = regexp.MustCompile(`[^\p{L}\p{N}\- _]`)
	docPath     = regexp.MustCompile(`docs/(?:tutorials|how-to|reference|explanation)/[a-z-]+\.md`)
)

// anchors returns the fragments that lead to the headings of a page, as GitHub makes them.
func (p page) anchors() map[string]bool {
	found := map[string]bool{}
	for _, line := range p.prose() {
		if m := headingLine.FindStringSubmatch(line); m != nil {
			text := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(m[1], "$1")
			anchor := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
			for n := 1; found[anchor]; n++ {
				anchor = fmt.Sprintf("%s-%d", strings.TrimSuffix(anchor, fmt.Sprintf("-%d", n-1)), n)
			}
			found[anchor] = true
		}
	}
	return found
}

// markdown returns all Markdown files of the tree but those of test data.
func markdown(t *testing.T) []page {
	t.Helper()
	var pages []page
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return fs.SkipDir
		case filepath.Ext(path) == ".md":
			path, err = filepath.Rel(top, path)
			pages = append(pages, readPage(t, filepath.ToSlash(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestDocsLinks checks that every relative link leads to a file, and every fragment to a heading.
func TestDocsLinks(t *testing.T) {
	pages := markdown(t)
	anchors := map[string]map[string]bool{}
	for _, p := range pages {
		anchors[p.name] = p.anchors()
	}
	links := 0
	for _, p := range pages {
		for i, line := range p.prose() {
			for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(line, "``"), -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				links++
				path, fragment, _ := strings.Cut(m[1], "#")
				target := p.name
				if path != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(p.name), path))
				}
				if _, err := os.Stat(filepath.Join(top, target)); err != nil {
					t.Errorf("%s:%d: %s: no such file", p.name, i+1, m[1])
				} else if fragment != "" && !anchors[target][fragment] {
					t.Errorf("%s:%d: %s: no such heading", p.name, i+1, m[1])
				}
			}
		}
	}
	if links < 100 {
		t.Errorf("%d links were found", links)
	}
}

// TestDocsPaths checks that the pages exist that Go files name, in messages and comments.
func TestDocsPaths(t *testing.T) {
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range docPath.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(top, name)); err != nil {
				t.Errorf("%s: %s: no such page", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
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

var (
	loggedName = regexp.MustCompile(`(?:[lL]og\.(?:Info|Warn|Error)|logEvent)\((?:nil, )?"([a-z_]+)"`)
	kindName   = regexp.MustCompile(`\b(?:Event)?Kind += "([a-z]+_[a-z_]+|evicted)"`)
	metricName = regexp.MustCompile(`(?:counter|gauge)\("([a-z_]+)"|Name: "modproxy_([a-z_]+)"`)
)

// namesIn returns what the first group of re that matches is, in the Go files of packages; tests do not count.
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

// TestDocsNames checks that docs/reference has every event of the log, and every metric.
func TestDocsNames(t *testing.T) {
	events := append(namesIn(t, loggedName, "app"), namesIn(t, kindName, "cache", "store")...)
	page := strings.Join(readPage(t, "docs/reference/log-events.md").lines, "\n")
	for _, name := range events {
		if name != "stale_served" && !strings.Contains(page, "`"+name+"`") { // stale_served is counted, not logged
			t.Errorf("docs/reference/log-events.md does not have %s", name)
		}
	}
	metrics := namesIn(t, metricName, "proxy")
	page = strings.Join(readPage(t, "docs/reference/metrics.md").lines, "\n")
	for _, name := range metrics {
		if !strings.Contains(page, "`modproxy_"+name+"`") {
			t.Errorf("docs/reference/metrics.md does not have modproxy_%s", name)
		}
	}
	if len(events) < 40 || len(metrics) < 20 {
		t.Errorf("%d events and %d metrics were found", len(events), len(metrics))
	}
}

// TestDocsForm checks that the pages that lead to a goal say what to do if it fails.
func TestDocsForm(t *testing.T) {
	for _, p := range docPages(t) {
		leads := strings.HasPrefix(p.name, "docs/tutorials/") || strings.HasPrefix(p.name, "docs/how-to/")
		if leads && p.name != "docs/how-to/other-tools.md" && !p.anchors()["if-it-fails"] { // in this one each tool says it
			t.Errorf("%s has no heading \"If it fails\"", p.name)
		}
	}
}

// quoted finds what stands in backquotes in the first cell of a row.
var quoted = regexp.MustCompile("`[^`]+`")

// TestDocsWords checks that programs print the words in backquotes with which a row begins, in docs/troubleshooting.md and under the
// headings "If it fails": they stand in docs/reference/reasons.md, which records what clients print, in a script, or in the source of
// modproxy.
func TestDocsWords(t *testing.T) {
	var said bytes.Buffer
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (filepath.Ext(path) == ".txtar" || filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "docs_test.go") || filepath.Base(path) == "reasons.md") {
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

// TestReadmeTable checks that the README leads to every page of docs, and is short.
func TestReadmeTable(t *testing.T) {
	readme := readPage(t, "README.md")
	text := strings.Join(readme.lines, "\n")
	for _, p := range docPages(t)[1:] {
		if !strings.Contains(text, "]("+p.name+")") {
			t.Errorf("the README has no link to %s", p.name)
		}
	}
	if n := len(readme.lines) - 1; n > maxReadme {
		t.Errorf("the README has %d lines, and may have %d", n, maxReadme)
	}
}

// TestDocsSteps checks how blocks are read: a mistake here would let commands pass that nothing runs.
func TestDocsSteps(t *testing.T) {
	p := page{"x.md", strings.Split("a\n\n<!-- script: one -->\n```console\n$ modproxy ls > f   # why\none\n…\n$ terraform -chdir=live init\n```\n```sh\n# remark\ncat > x <<'END'\nfile\nEND\nmodproxy \\\n  gc\n```\n", "\n")}
	var out bytes.Buffer
	for _, b := range p.blocks() {
		fmt.Fprintf(&out, "%s %q\n", b.language, b.marker)
		for _, s := range b.steps() {
			fmt.Fprintf(&out, "%s %q\n", asInScript(s.command), s.output)
		}
	}
	want := "console \"script: one\"\nmodproxy ls [\"one\"]\nclient init live []\nsh \"```\"\nfile [\"file\"]\nmodproxy gc []\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	s := &transcript{lines: []string{"! modproxy ls", "stdout '^on.$'", "stdout 'two'", "[tofu] client init live"}}
	if !s.run("modproxy ls") || s.prints("two") || !s.prints("one") || s.prints("one") || !s.run("client init live") || s.run("modproxy ls") {
		t.Error("the script is not read in order")
	}
}
