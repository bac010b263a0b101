package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/internal/hint"
)

// policyFile is what one of the files of a policy has.
type policyFile struct {
	Reserved []string     `yaml:"reserved"`
	Rules    []PolicyRule `yaml:"rules"`
}

// PolicyFiles reads the files of the policy, and returns the policy with their rules and reserved namespaces. place
// returns where a rule stands. Its error is an [Error].
func (c *Config) PolicyFiles() (all Policy, place func(rule int) string, err error) {
	all = c.Policy
	all.Rules, all.Reserved = slices.Clone(all.Rules), slices.Clone(all.Reserved)
	var places []string
	for i := range all.Rules {
		places = append(places, c.Source(fmt.Sprintf("policy.rules[%d]", i)))
	}
	var wrong Error
	for _, name := range c.Policy.Files {
		rules, at, err := ReadPolicy(name)
		if err != nil {
			wrong = append(wrong, err...)
			continue
		}
		all.Rules, all.Reserved, places = append(all.Rules, rules.Rules...), append(all.Reserved, rules.Reserved...), append(places, at...)
	}
	place = func(rule int) string { return places[rule] }
	if len(wrong) > 0 {
		return all, place, wrong
	}
	return all, place, nil
}

// PolicyPaths returns the names and patterns of the files that rules come from.
func (c *Config) PolicyPaths() []string {
	paths := slices.Clone(c.Policy.Files)
	if c.file != "" {
		paths = append(paths, c.file)
	}
	for _, rule := range c.Policy.Rules {
		paths = append(paths, rule.AllowLocked...)
	}
	return paths
}

// ReadPolicy reads one of the files of a policy, and where each of its rules stands.
func ReadPolicy(name string) (rules Policy, places []string, wrong Error) {
	holder := &Config{sources: map[string]string{}, open: os.Open}
	text, err := holder.readFile(name)
	if err != nil {
		return rules, nil, Error{hint.With(fmt.Errorf("policy: %w", err), "policy.files names the files with rules")}
	}
	var file policyFile
	d := &decoder{config: holder, name: name, lines: true}
	d.decode(text, reflect.ValueOf(&file).Elem(), "")
	for i := range file.Rules {
		places = append(places, holder.Source(fmt.Sprintf("rules[%d]", i)))
	}
	return Policy{Rules: file.Rules, Reserved: file.Reserved}, places, d.wrong
}

// policy checks what can be checked of the policy without its files.
func (k *checker) policy() {
	one := func(path, value string, of ...string) {
		k.failIf(!slices.Contains(of, value), path, "want %s, not %.80q", strings.Join(of, " or "), value)
	}
	one("policy.default", k.Policy.Default, "allow", "deny")
	one("policy.mode", k.Policy.Mode, "enforce", "audit")
	one("policy.first_contact", k.Policy.FirstContact, "wait", "allow")
}
