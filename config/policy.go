package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// maxPolicy bounds a file of rules, in bytes. One with 10,000 rules has 2 MiB or so.
const maxPolicy = 4 * MiB

// Rules are rules and reserved namespaces, and where each of them stands, for people: "policy.yaml:12".
type Rules struct {
	Rules      []PolicyRule
	Places     []string
	Reserved   []string
	ReservedAt []string
}

// policyFile is what one of the files of a policy has.
type policyFile struct {
	Reserved []string     `yaml:"reserved"`
	Rules    []PolicyRule `yaml:"rules"`
}

// PolicyPaths returns the files that AllRules reads, and the one that c was read from.
func (c *Config) PolicyPaths() []string {
	paths := slices.Clone(c.Policy.Files)
	if c.file != "" {
		paths = append(paths, c.file)
	}
	return paths
}

// File returns the name of the file that c was read from, or an empty string.
func (c *Config) File() string { return c.file }

// AllRules returns the rules of c and of its files. Its error is an [Error]; then what is in order is returned, too.
func (c *Config) AllRules() (all Rules, err error) {
	all = c.rules("policy.", c.Policy.Rules, c.Policy.Reserved)
	var wrong Error
	for i, name := range c.Policy.Files {
		at, path := "policy", fmt.Sprintf("policy.files[%d]", i)
		if source := c.Source(path); source != "default" {
			at = source + ": " + path
		}
		more, mistakes := readRules(name, at)
		wrong = append(wrong, mistakes...)
		all.Rules, all.Places = append(all.Rules, more.Rules...), append(all.Places, more.Places...)
		all.Reserved, all.ReservedAt = append(all.Reserved, more.Reserved...), append(all.ReservedAt, more.ReservedAt...)
	}
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// WithRules returns c with the rules and reserved namespaces of files, and none of its own.
func (c *Config) WithRules(files ...string) *Config {
	other := *c
	other.Policy.Files, other.Policy.Rules, other.Policy.Reserved = files, nil, nil
	other.sources = maps.Clone(c.sources)
	maps.DeleteFunc(other.sources, func(path, _ string) bool { return strings.HasPrefix(path, "policy.files") })
	return &other
}

// ReadRules reads one of the files of a policy. Its error is an [Error].
func ReadRules(name string) (Rules, error) {
	all, wrong := readRules(name, "policy")
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// readRules reads a file of a policy. at stands before what is wrong with the file as a whole.
func readRules(name, at string) (Rules, Error) {
	text, err := durable.ReadRegular(name, int64(maxPolicy))
	if err == nil && len(bytes.TrimSpace(text)) == 0 { // it is just being written, or its content is lost
		err = fmt.Errorf("%s: nothing in it", name)
	}
	if err != nil {
		return Rules{}, Error{hint.With(fmt.Errorf("%s: %w", at, err), "policy.files names YAML files with the keys rules and reserved")}
	}
	holder := &Config{sources: map[string]string{}}
	var file policyFile
	d := &decoder{config: holder, name: name, lines: true}
	d.decode(text, reflect.ValueOf(&file).Elem(), "")
	holder.unsound = nil // one mistake in a rule hides none in another
	k := &checker{Config: holder}
	k.rules("", file.Rules)
	return holder.rules("", file.Rules, file.Reserved), append(d.wrong, k.wrong...)
}

// rules returns rules and reserved namespaces, whose keys have a prefix, with their places.
func (c *Config) rules(prefix string, rules []PolicyRule, reserved []string) Rules {
	all := Rules{Rules: slices.Clone(rules), Reserved: slices.Clone(reserved)}
	for i := range rules {
		all.Places = append(all.Places, c.Source(fmt.Sprintf("%srules[%d]", prefix, i)))
	}
	for i := range reserved {
		all.ReservedAt = append(all.ReservedAt, c.Source(fmt.Sprintf("%sreserved[%d]", prefix, i)))
	}
	return all
}

// policy checks what can be checked of the policy without its files.
func (k *checker) policy() {
	k.word("policy.default", k.Policy.Default, "allow", "deny")
	k.word("policy.mode", k.Policy.Mode, "enforce", "audit")
	k.word("policy.denied", k.Policy.Denied, "hide", "list")
	k.word("policy.first_contact", k.Policy.FirstContact, "wait", "allow")
	k.rules("policy.", k.Policy.Rules)
}

// rules checks each rule by itself. The keys have a prefix.
func (k *checker) rules(prefix string, rules []PolicyRule) {
	for i, rule := range rules {
		if rule.Approval != "" {
			k.word(fmt.Sprintf("%srules[%d].approval", prefix, i), rule.Approval, "required")
		}
	}
}

// word checks that the value of a key is one of a few words.
func (k *checker) word(path, value string, words ...string) {
	if slices.Contains(words, value) {
		return
	}
	want, last := "", len(words)-1
	if last > 0 {
		want = strings.Join(words[:last], ", ") + " or "
	}
	err := fmt.Errorf("want %s, not %.80q", want+words[last], value)
	if near := hint.Nearest(value, words); near != "" {
		err = hint.With(err, fmt.Sprintf("did you mean %s?", near))
	}
	k.fail(path, err)
}
