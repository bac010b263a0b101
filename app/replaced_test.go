package app

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/policy"
)

// TestRulesReplacedWhileTheyAreRead: rules whose file was replaced while they were read never come into force, and their mistakes
// are not reported.
func TestRulesReplacedWhileTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	file, configFile := filepath.Join(dir, "rules.yaml"), filepath.Join(dir, "modproxy.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rule := func(namespace string) string { return "rules:\n  - deny: registry.example.com/" + namespace + "/*/*\n" }
	write(file, rule("one"))
	write(configFile, "listen: 127.0.0.1:0\ndata: "+filepath.Join(dir, "data")+"\npolicy: {files: ["+file+"]}\n")
	c, err := config.Load(configFile, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var replaceBy, replaceConfig string
	var replaceAlways func() string
	rulesFrom = func(c *config.Config) (*policy.Rules, []string, error) {
		rules, paths, err := rulesOf(c)
		if replaceBy != "" {
			write(file, replaceBy)
			replaceBy = ""
		}
		if replaceConfig != "" {
			write(configFile, replaceConfig)
			replaceConfig = ""
		}
		if replaceAlways != nil {
			write(file, replaceAlways())
		}
		return rules, paths, err
	}
	t.Cleanup(func() { rulesFrom = rulesOf })

	replaceBy = rule("two")
	a, err := New(t.Context(), c, Options{Log: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	check := func(what, want string) {
		t.Helper()
		if rules := a.gate.Rules().Rules; len(rules) != 1 || rules[0].Deny.String() != "registry.example.com/"+want+"/*/*" {
			t.Errorf("%s: %v", what, rules)
		}
	}
	check("replaced at the start", "two")
	for content, by := range map[string]string{rule("three"): "four", "rules: nonsense": "five"} {
		write(file, content)
		replaceBy = rule(by)
		a.reloadRules(false)
		check("replaced", by)
		if err := a.rulesProblem(); err != nil {
			t.Errorf("a mistake that is gone: %v", err)
		}
	}
	began, err := os.ReadFile(configFile)
	if err != nil {
		t.Fatal(err)
	}
	before := a.gate.Rules()
	replaceConfig = string(began) + "contact: nobody\n"
	a.reloadRules(false)
	if a.gate.Rules() != before {
		t.Error("the configuration was replaced, and its rules count")
	}
	if a.reloadRules(false); a.gate.Rules() == before || a.gate.Rules().Contact != "nobody" {
		t.Errorf("contact %q", a.gate.Rules().Contact)
	}
	a.reloadRules(false)

	always := 0
	replaceAlways = func() string { always++; return rule(fmt.Sprint("again", always)) }
	write(file, rule("six"))
	before = a.gate.Rules()
	if a.reloadRules(false); a.gate.Rules() != before || a.rulesProblem() != nil {
		t.Error("it was replaced each time, and something counts")
	}
	replaceAlways = nil
	a.reloadRules(false)
	check("in the end", fmt.Sprint("again", always))
}
