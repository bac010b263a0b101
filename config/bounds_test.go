package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/test/rig"
)

// TestFilesThatTakeLong: a file that the library would parse for minutes is an error that names the file. A file that is only
// long is not.
func TestFilesThatTakeLong(t *testing.T) {
	keys := func(format string) string {
		var b strings.Builder
		for i := range 1 << 14 {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	many, rules := 66_000, 2_000 // many missing values, times tokens, exceed maxMoves
	if rig.Long() {
		many, rules = 1<<17, 10_000
	}
	for name, test := range map[string]struct{ text, want string }{
		"entries of nothing":   {strings.Repeat("-\n", many), "keys or entries have no value"},
		"and comments":         {strings.Repeat("- # x\n", many), "keys or entries have no value"},
		"lists of nothing":     {strings.Repeat("- -\n", many), "keys or entries have no value"},
		"keys without a value": {"rules:\n" + strings.Repeat("- deny:\n  reason:\n", many), "keys or entries have no value"},
		"and in brackets":      {"rules: [" + strings.Repeat("{reason: },\n", many) + "]", "keys or entries have no value"},
		"keys":                 {keys("k%d: v\n"), "more than 200 keys beside each other"},
		"keys with texts":      {keys("k%d: |\n a\n"), "more than 200 keys beside each other"},
		"keys with comments":   {"rules:\n" + keys("  k%d: v\n# x\n"), "more than 200 keys beside each other"},
		"keys with lists":      {keys("k%d:\n- x\n"), "more than 200 keys beside each other"},
		"keys with brackets":   {"rules:\n" + keys("  k%d: [\n]\n"), "more than 200 keys beside each other"},
		"keys behind ?":        {keys("? k%d\n: v\n"), "more than 200 keys beside each other"},
		"deep":                 {strings.Repeat("[", 1<<10), "nested too deeply"},
		"rules":                {"rules:\n" + strings.Repeat("- deny: a.example/b/c/d\n  groups:\n  - x\n  versions: '>= 1'\n", rules), ""},
		"rules of no reason":   {"rules:\n" + strings.Repeat("- deny: a.example/b/c/d\n  reason:\n", rules), ""},
		"rules in brackets":    {"{rules: [" + strings.Repeat("{deny: a.example/b/c/d, reason: x},\n", rules) + "]}", ""},
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		read, err := ReadRules(file)
		switch {
		case test.want == "" && (err != nil || len(read.Rules) != rules):
			t.Errorf("%s: %d rules, %v", name, len(read.Rules), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), file+":")):
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
