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

// maxPolicy is the maximum size of a file of rules, in bytes. 10,000 rules have about 2 MiB.
const maxPolicy = 4 * MiB

// Rules are rules and reserved namespaces, with the place of each for people: "policy.yaml:12".
type Rules struct {
	Rules      []PolicyRule
	Places     []string
	Reserved   []string
	ReservedAt []string
}

// policyFile is the content of one file of the policy.
type policyFile struct {
	Reserved []string     `yaml:"reserved"`
	Rules    []PolicyRule `yaml:"rules"`
}

// PolicyPaths returns the files that AllRules reads, and the file that c was read from.
func (c *Config) PolicyPaths() []string {
	paths := slices.Clone(c.Policy.Files)
	if c.file != "" {
		paths = append(paths, c.file)
	}
	return paths
}

// File returns the name of the file that c was read from, or an empty string.
func (c *Config) File() string { return c.file }

// AllRules returns the rules of c and of its files. The error is an [Error]; the valid rules are returned with it.
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

// WithRules returns a copy of c whose rules and reserved namespaces are those of files only, without the ones in c itself.
func (c *Config) WithRules(files ...string) *Config {
	other := *c
	other.Policy.Files, other.Policy.Rules, other.Policy.Reserved = files, nil, nil
	other.sources = maps.Clone(c.sources)
	maps.DeleteFunc(other.sources, func(path, _ string) bool { return strings.HasPrefix(path, "policy.files") })
	return &other
}

// WithPolicyOf returns a copy of c with the contact and the policy of next, and their sources.
func (c *Config) WithPolicyOf(next *Config) *Config {
	other := *c
	other.Contact, other.Policy = next.Contact, next.Policy
	isOfPolicy := func(path, _ string) bool { return path == "contact" || strings.HasPrefix(path+".", "policy.") }
	other.sources = maps.Clone(c.sources)
	maps.DeleteFunc(other.sources, isOfPolicy)
	for path, source := range next.sources {
		if isOfPolicy(path, source) {
			other.sources[path] = source
		}
	}
	return &other
}

// ReadRules reads one file of a policy. The error is an [Error].
func ReadRules(name string) (Rules, error) {
	all, wrong := readRules(name, "policy")
	if len(wrong) > 0 {
		return all, wrong
	}
	return all, nil
}

// readRules reads a file of a policy. at is the prefix of errors about the whole file.
func readRules(name, at string) (Rules, Error) {
	text, err := durable.ReadRegular(name, int64(maxPolicy))
	if err == nil && len(bytes.TrimSpace(text)) == 0 { // it is being written, or its content is lost
		err = fmt.Errorf("%s: the file is empty", name)
	}
	if err != nil {
		return Rules{}, Error{hint.With(fmt.Errorf("%s: %w", at, err), "policy.files names YAML files with the keys rules and reserved")}
	}
	holder := &Config{sources: map[string]string{}}
	var file policyFile
	d := &decoder{config: holder, name: name, lines: true}
	d.decode(text, reflect.ValueOf(&file).Elem(), "")
	holder.unsound = nil // a mistake in one rule must not hide one in another
	k := &checker{Config: holder}
	k.rules("", file.Rules)
	return holder.rules("", file.Rules, file.Reserved), append(d.wrong, k.wrong...)
}

// rules returns rules and reserved namespaces with their places. prefix is that of their keys.
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

// rules checks each rule individually. prefix is that of its keys.
func (k *checker) rules(prefix string, rules []PolicyRule) {
	for i, rule := range rules {
		if rule.Approval != "" {
			k.word(fmt.Sprintf("%srules[%d].approval", prefix, i), rule.Approval, "required")
		}
	}
}

// word checks that the value of a key is one of words.
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
