package main_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

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
	setting      = regexp.MustCompile(`^(?:export (\w+)=.*|unset (\w+))$`)
	prefixes     = regexp.MustCompile(`^(\[\S+\] |! |exec )+`)
	clientOption = regexp.MustCompile(`^client -\w+ `)
	expectation  = regexp.MustCompile(`^(?:stdout|stderr|tells|logged) (?:-\S+ )*'(.*)'$`)
	comparison   = regexp.MustCompile(`^cmp (?:stdout|stderr) (\S+)$`)
)

// names replaces names in pages and scripts by those of the scripts.
var names = strings.NewReplacer("registry.example.com", "registry.acme.example", "go run ./cmd/modproxy", "modproxy",
	"http://127.0.0.1:8080", "https://modules.example.com", "$PROXY", "https://modules.example.com", "$HOME/", "", "~/", "")

// asInScript returns the form that a command of a page has in a script.
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
		return "set " + m[1] + m[2]
	}
	return strings.TrimSpace(command)
}

// anyWord matches a word of a command that varies.
const anyWord = "\x00"

var (
	inShell       = regexp.MustCompile(`^sh -c '"\$MODPROXY"(.*)'$`)
	variable      = regexp.MustCompile(`'\$\(cat \w+\)'|\$[A-Z_]+`)
	scriptGet     = regexp.MustCompile(`^get .*?(https?://[^\s']+)'?$`)
	scriptSetting = regexp.MustCompile(`^(?:env (\w+)=|(?:token|issuer sign) (\w+) ).*`)
)

// asInPage returns the form that asInScript gives to the command of a page that a line of a script runs. A value in a variable or in a
// file, such as a key, becomes anyWord.
func asInPage(line string) string {
	line = names.Replace(strings.TrimSuffix(prefixes.ReplaceAllString(line, ""), " &"))
	if m := inShell.FindStringSubmatch(line); m != nil {
		line = strings.ReplaceAll("modproxy"+m[1], `"`, "'")
	}
	line = clientOption.ReplaceAllString(line, "client ")
	line = variable.ReplaceAllString(line, anyWord)
	if m := scriptGet.FindStringSubmatch(line); m != nil {
		return "get " + m[1]
	}
	if m := scriptSetting.FindStringSubmatch(line); m != nil {
		return "set " + m[1] + m[2]
	}
	return line
}

// transcript is a script, with the position that the commands of one page have reached in it.
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

// run moves to the next line that runs a command of a page. It reports whether there is one.
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

// prints reports whether the script compares a line of output: with an anchored expression that matches the line, or with a file that
// has the line.
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

// TestDocsCommands checks that a script runs every command of a page, with the real clients and in the order of the page, and compares
// the output in the page with the printed one. The comment in the line before a block names what runs it:
//
//	<!-- script: NAME -->     testdata/script/NAME.txtar
//	<!-- test: DIR -->        the tests in this directory, which read the page
//	<!-- not run: REASON -->  no test, for this reason
func TestDocsCommands(t *testing.T) {
	run := 0
	for _, p := range docPages(t) {
		scripts := map[string]*transcript{}
		for _, b := range p.blocks() {
			at := fmt.Sprintf("%s:%d", p.name, b.line)
			if b.language == "" {
				t.Errorf("%s: the block has no language: text, if it is nothing else", at)
			}
			if p.isGenerated() || !slices.Contains([]string{"console", "sh", "shell", "bash", "powershell"}, b.language) {
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

// TestDocsSteps checks that blocks and scripts are read as TestDocsCommands needs it. A mistake would let commands pass that no script
// runs.
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
	s := &transcript{lines: []string{"! modproxy ls", "stdout '^on.$'", "stdout 'two'", "env TOKEN=", "[tofu] client -unset init live"}}
	if !s.run("modproxy ls") || s.prints("two") || !s.prints("one") || s.prints("one") || !s.run(asInScript("unset TOKEN")) ||
		!s.run("client init live") || s.run("modproxy ls") {
		t.Error("the script is not read in order")
	}
}
