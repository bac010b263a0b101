// Command prose reports wording that CONTRIBUTING.md rejects.
//
//	go run -C tools ./prose
//
// It reads the list below "Words that are rejected" in CONTRIBUTING.md: a regular expression in backquotes, an arrow, and what to write
// instead. It looks at
//
//   - comments of Go files, and string literals of Go files that are not tests
//   - Markdown files
//   - lines that begin with # in test scripts (*.txtar), shell scripts, YAML files, Makefile and Dockerfile
//   - the descriptions at the beginning of patches
//
// In directories named testdata it looks at test scripts only. A blank in an expression also matches the end of a line, but not an
// empty line.
//
// tools/prose/allowed lists exceptions: a path, a blank, and the words. An exception without a finding is an error.
//
// It also looks at the subjects of the commits since the one that added this program: at most 60 characters. Without git history it
// leaves them out.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	heading    = "### Words that are rejected"
	maxSubject = 60
	home       = "tools/prose"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

type rule struct {
	words   *regexp.Regexp
	instead string
}

type finding struct {
	file, words, instead string
	line                 int
}

func run(root string) error {
	rules, err := readRules(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		return err
	}
	allowed, err := readList(filepath.Join(root, home, "allowed"))
	if err != nil {
		return err
	}
	all, err := look(root, rules)
	if err != nil {
		return err
	}
	wrong, used := 0, map[string]bool{}
	for _, f := range all {
		exception := f.file + " " + f.words
		if slices.Contains(allowed, exception) {
			used[exception] = true
			continue
		}
		wrong++
		fmt.Printf("%s:%d: %q: write %s\n", f.file, f.line, f.words, f.instead)
	}
	for _, exception := range allowed {
		if !used[exception] {
			wrong++
			fmt.Printf("%s/allowed: %q is not there any more: remove the line\n", home, exception)
		}
	}
	wrong += subjects(root)
	if wrong > 0 {
		return fmt.Errorf("%d findings; CONTRIBUTING.md has the words", wrong)
	}
	return nil
}

var entry = regexp.MustCompile("^- `(.+)` → (.+)$")

// blank matches blanks between two words, with at most one end of a line.
const blank = `(?:[ \t]+|[ \t]*\n[ \t]*)`

func readRules(name string) (rules []rule, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	_, section, _ := strings.Cut(string(text), heading+"\n")
	section, _, _ = strings.Cut(section, "\n#")
	for line := range strings.Lines(section) {
		if m := entry.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			words, err := regexp.Compile(`(?is)\b(?:` + strings.ReplaceAll(m[1], " ", blank) + `)\b`)
			if err != nil {
				return nil, err
			}
			rules = append(rules, rule{words, m[2]})
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("%s has no rule below %q", name, heading)
	}
	return rules, nil
}

func readList(name string) (list []string, err error) {
	text, err := os.ReadFile(name)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			list = append(list, line)
		}
	}
	return list, err
}

// look returns the findings in all files below root that git would not ignore.
func look(root string, rules []rule) (all []finding, err error) {
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() {
			if name != root && (base == ".git" || base == "man") {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		see := func(line int, text string) {
			for _, r := range rules {
				for _, at := range r.words.FindAllStringIndex(text, -1) {
					words := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
					all = append(all, finding{file, words, r.instead, line + strings.Count(text[:at[0]], "\n")})
				}
			}
		}
		kind := cmp.Or(filepath.Ext(name), d.Name())
		if kind != ".txtar" && slices.Contains(strings.Split(file, "/"), "testdata") {
			return nil
		}
		switch kind {
		case ".go":
			return lookAtGo(name, see)
		case ".md":
			return lookAtLines(name, markdown(), see)
		case ".patch":
			return lookAtLines(name, description(), see)
		case ".txtar", ".sh", ".yaml", ".yml", "Makefile", "Dockerfile":
			return lookAtLines(name, comment, see)
		}
		return nil
	})
	return all, err
}

func lookAtGo(name string, see func(line int, text string)) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, group := range f.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, strings.TrimPrefix(c.Text, "//"))
		}
		see(files.Position(group.Pos()).Line, strings.Join(lines, "\n"))
	}
	if strings.HasSuffix(name, "_test.go") {
		return nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				see(files.Position(lit.Pos()).Line, text)
			}
		}
		return true
	})
	return nil
}

// lookAtLines looks at the prose of each line of a file, as prose returns it. prose receives the lines in their order.
func lookAtLines(name string, prose func(line string) string, see func(line int, text string)) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		lines[i] = prose(line)
	}
	see(1, strings.Join(lines, "\n"))
	return nil
}

// comment returns the text of a line that begins with #, after blanks.
func comment(line string) string {
	line = strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(line, "#") {
		return ""
	}
	return strings.TrimLeft(line, "#")
}

// markdown returns the prose of a Markdown file, without the section that lists the words, and without code blocks, which show the
// output of programs.
func markdown() func(line string) string {
	listing, code := false, false
	return func(line string) string {
		if strings.HasPrefix(line, "#") && !code {
			listing = line == heading
		}
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		}
		if listing || code {
			return ""
		}
		return line
	}
}

// description returns the prose of a patch: the lines before its first field or change.
func description() func(line string) string {
	over := false
	return func(line string) string {
		for _, end := range []string{"In: ", "Found by: ", "---"} {
			over = over || strings.HasPrefix(line, end)
		}
		if over {
			return ""
		}
		return line
	}
}

// subjects reports the commits since this program was added whose subject is too long.
func subjects(root string) (wrong int) {
	git := func(args ...string) string {
		out, _ := exec.Command("git", append([]string{"-C", root}, args...)...).Output()
		return string(bytes.TrimSpace(out))
	}
	added := git("log", "--diff-filter=A", "--format=%H", "--", home+"/main.go")
	if added == "" {
		return 0
	}
	added = added[strings.LastIndex(added, "\n")+1:]
	for subject := range strings.SplitSeq(git("log", "--no-merges", "--format=%s", added+"..HEAD"), "\n") {
		if n := utf8.RuneCountInString(subject); n > maxSubject {
			wrong++
			fmt.Printf("commit %q: %d characters, want at most %d\n", subject, n, maxSubject)
		}
	}
	return wrong
}
