package previous_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Today's program reads the configuration of the previous version: the example, and the values in force as "modproxy config" prints them.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	p := built(t)
	printed, err := exec.Command(p.previous, "config").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "modproxy.yaml")
	if err := os.WriteFile(file, printed, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{file, filepath.Join(dir, "source", "config.example.yaml")} {
		if out, err := exec.Command(p.today, "config", "check", "--config", file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(file), err, out)
		}
	}
}

// pages are the generated pages of docs/reference whose names do not disappear, with an expression for the names.
var pages = map[string]*regexp.Regexp{
	"cli.md":           regexp.MustCompile("(?m)^## (modproxy.*)$|^\\| `(?:-., )?(--[a-z-]+)"),
	"configuration.md": regexp.MustCompile("(?m)^#+ `(.*)`$"),
	"json.md":          regexp.MustCompile("(?m)^## (modproxy.*)$|^- `(.*)`$"),
	"http.md":          regexp.MustCompile("(?m)^\\| `((?:GET|POST) .*?)`"),
	"log-events.md":    regexp.MustCompile("(?m)^\\| `([a-z_]+)`"),
	"metrics.md":       regexp.MustCompile("(?m)^\\| `([a-z_]+)`"),
}

// Every name in the previous pages is in today's pages, or CHANGELOG.md has it once more than before.
func TestNames(t *testing.T) {
	t.Parallel()
	built(t)
	source := filepath.Join(dir, "source")
	changesBefore, changes := read(t, source, "CHANGELOG.md"), read(t, module, "CHANGELOG.md")
	for page := range pages {
		now := namesIn(t, module, page)
		if len(now) == 0 {
			t.Errorf("%s: no names found", page)
		}
		if _, err := os.Stat(filepath.Join(source, "docs", "reference", page)); errors.Is(err, fs.ErrNotExist) {
			continue // the page is new
		}
		before := namesIn(t, source, page)
		if len(before) == 0 {
			t.Errorf("%s: no names found in the previous version", page)
		}
		for _, name := range slices.Sorted(maps.Keys(before)) {
			if !now[name] && strings.Count(changes, name) <= strings.Count(changesBefore, name) {
				t.Errorf("%s: %q is missing, and CHANGELOG.md has no line about that", page, name)
			}
		}
	}
}

// namesIn returns the names in a page of docs/reference below root. A flag or a field of JSON is named with its verb, as in
// "modproxy ls --json".
func namesIn(t *testing.T, root, page string) map[string]bool {
	t.Helper()
	names, verb := map[string]bool{}, ""
	for _, found := range pages[page].FindAllStringSubmatch(read(t, root, "docs", "reference", page), -1) {
		switch {
		case page != "cli.md" && page != "json.md":
			names[found[1]] = true
		case found[1] != "":
			verb = found[1]
			names[verb] = true
		default:
			names[verb+" "+found[2]] = true
		}
	}
	return names
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
