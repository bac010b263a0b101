package modproxy_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var skip = regexp.MustCompile(`\b(?:t|b|f|tb)\.Skip(?:f|Now)?\(`)

// TestSkips checks that tests are skipped only by rig.Missing, which fails in CI.
func TestSkips(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(path, "test/") || filepath.Ext(path) != ".go" {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		if place := skip.FindIndex(text); place != nil && path != filepath.Join("test", "rig", "build.go") {
			line := 1 + strings.Count(string(text[:place[0]]), "\n")
			t.Errorf("%s:%d: a test is skipped in CI, too: call rig.Missing", path, line)
		}
		return err
	})
	if err != nil || files < 300 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
