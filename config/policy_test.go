package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/test/rig"
)

// TestRulesErrors: an error about a file of rules names the line, the key and a similar word.
func TestRulesErrors(t *testing.T) {
	for name, test := range map[string]struct{ file, want string }{
		"unknown key": {"rulse: []\nreserved: []", "FILE:1: unknown key \"rulse\"\nhint: did you mean rules?\n"},
		"unknown inner key": {"rules:\n- alow: a/b/c/d\n- deny: a/b/c/d\n  raeson: x",
			"FILE:2: unknown key \"rules[0].alow\"\nhint: did you mean rules[0].allow?\nFILE:4: unknown key \"rules[1].raeson\"\nhint: did you mean rules[1].reason?\n"},
		"key of the configuration": {"default: deny", "FILE:1: unknown key \"default\"\nhint: did you mean policy.default?\n"},
		"approval":                 {"rules:\n- allow: a/b/c/d\n  approval: requried", "FILE:3: rules[0].approval: want required, not \"requried\"\nhint: did you mean required?\n"},
		"approval, far off":        {"rules:\n- allow: a/b/c/d\n  approval: 'yes'", "FILE:3: rules[0].approval: want required, not \"yes\"\n"},
		"twice":                    {"rules: []\nrules: []", "FILE:2: not YAML: mapping key \"rules\" already defined at [1:1]\n"},
		"twice, inside":            {"rules:\n- allow: a/b/c/d\n  allow: a/b/c/e", "FILE:3: not YAML: mapping key \"allow\" already defined at [2:3]\n"},
		"versions":                 {"rules:\n- allow: a/b/c/d\n\n  versions: newest", "FILE:4: rules[0].versions: invalid: version constraint \"newest\": want terms such as >= 1.2.0 or ~> 1.4, separated by commas\n"},
		"pattern":                  {"rules:\n- allow: acme/network/aws", "FILE:2: rules[0].allow: invalid: \"acme/network/aws\": want host/namespace/name/system, where * matches a segment or part of one, as in registry.terraform.io/terraform-aws-modules/*/aws; or host/namespace/type for providers\n"},
		"age":                      {"rules:\n- allow: a/b/c/d\n  min_age: 7", "FILE:3: rules[0].min_age: want a duration with its unit, such as 30s, 5m, 12h or 30d\n"},
		"groups":                   {"rules:\n- allow: a/b/c/d\n  groups: infra", "FILE:3: rules[0].groups: want a list\n"},
		"a list":                   {"- allow: a/b/c/d", "FILE:1: want keys with values\n"},
		"alias":                    {"reserved: &r [a]\nrules: []", "FILE:1: reserved: anchors, aliases and tags are not supported\n"},
		"two documents":            {"rules: []\n---\nrules: []", "FILE:3: want one YAML document, not several\n"},
		"empty":                    {"", "FILE: the file is empty\nhint: policy.files names YAML files with the keys rules and reserved\n"},
		"blank":                    {" \n\n", "FILE: the file is empty\nhint: policy.files names YAML files with the keys rules and reserved\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, "policy.yaml", test.file)
			_, err := ReadRules(file)
			got := strings.ReplaceAll(strings.ReplaceAll(messages(err), file, "FILE"), "policy: FILE", "FILE")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestAllRules: every rule has a place, and a mistake in one file does not hide those in another.
func TestAllRules(t *testing.T) {
	one := writeFile(t, "one.yaml", "# ours\nrules:\n- deny: a/b/c/d\nreserved: [acme]\n")
	two := writeFile(t, "two.yaml", "rules: [{deny: a/b/c/e}]\r\n")
	file := writeFile(t, "modproxy.yaml", "policy:\n  rules:\n  - deny: a/b/c/f\n\n  - deny: a/b/c/g\n  reserved:\n  - corp\n  files: ["+one+", "+two+"]\n")
	c, err := Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.AllRules()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, rule := range all.Rules {
		got = append(got, rule.Deny.String()+" "+all.Places[i])
	}
	for i, namespace := range all.Reserved {
		got = append(got, namespace+" "+all.ReservedAt[i])
	}
	want := []string{"a/b/c/f " + file + ":3", "a/b/c/g " + file + ":5", "a/b/c/d " + one + ":3", "a/b/c/e " + two + ":1", "corp " + file + ":7", "acme " + one + ":4"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if diff := cmp.Diff([]string{one, two, file}, c.PolicyPaths()); diff != "" {
		t.Errorf("files: -want +got\n%s", diff)
	}

	c, err = Load("", []string{"MODPROXY_POLICY_FILES=" + filepath.Join(t.TempDir(), "absent") + "," + writeFile(t, "bad.yaml", "rulse: []"),
		"MODPROXY_POLICY_RULES=- deny: a/b/c/d\n- deny: a/b/c/e", "MODPROXY_POLICY_DEFAULT=deny", "MODPROXY_POLICY_RESERVED=acme, acme-*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err = c.AllRules()
	if got := fmt.Sprintln(all.Places, all.Reserved, all.ReservedAt, c.Policy.Default); got != "[MODPROXY_POLICY_RULES:1 MODPROXY_POLICY_RULES:2] [acme acme-*] [MODPROXY_POLICY_RESERVED MODPROXY_POLICY_RESERVED] deny\n" {
		t.Error(got)
	}
	if got := messages(err); !strings.HasPrefix(got, "MODPROXY_POLICY_FILES: policy.files[0]: open ") || !strings.Contains(got, "bad.yaml:1: unknown key") {
		t.Error(got)
	}
}

// TestRulesHostile: a hostile file in place of a file of rules is refused at once.
func TestRulesHostile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	sparse, err := os.Create(path("sparse"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(sparse.Truncate(100<<20), sparse.Close(), os.Mkdir(path("dir"), 0o700), os.Symlink("loop", path("loop")),
		os.Symlink("absent", path("dangling")), os.Symlink("/dev/zero", path("endless")), syscall.Mkfifo(path("pipe"), 0o600),
		os.WriteFile(path("binary"), []byte("\x00\xff\xfe"), 0o600), os.WriteFile(path("deep"), []byte(strings.Repeat("[", 100_000)), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"sparse": nil, "dir": durable.ErrNotRegular, "loop": syscall.ELOOP, "dangling": os.ErrNotExist, "endless": durable.ErrNotRegular,
		"pipe": durable.ErrNotRegular, "absent": os.ErrNotExist, "binary": nil, "deep": nil,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadRules(path(name))
		runtime.ReadMemStats(&after)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; name == "sparse" && used > 1<<20 {
			t.Errorf("%s: %d bytes were read", name, used)
		}
	}
}

// manyRules returns a file with n rules.
func manyRules(n int) []byte {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := range n {
		fmt.Fprintf(&b, "- allow: registry.terraform.io/terraform-aws-modules/module-%d/aws\n  versions: \">= 5.0.0, != 5.1.2\"\n  min_age: 7d\n  groups: [infra, platform]\n", i)
	}
	return []byte(b.String())
}

// TestManyRules: a file can contain ten thousand rules, and even twice as many. The time grows only in proportion to their
// number.
func TestManyRules(t *testing.T) {
	text := manyRules(20_000)
	if len(text) > int(maxPolicy) {
		t.Fatalf("%d bytes are more than a file may have", len(text))
	}
	rules := 4_000
	if rig.Long() {
		rules = 20_000
	}
	all, err := ReadRules(writeFile(t, "policy.yaml", string(manyRules(rules))))
	if err != nil || len(all.Rules) != rules || !strings.HasSuffix(all.Places[rules-1], fmt.Sprintf(":%d", 4*rules-2)) {
		t.Errorf("%d rules, %v", len(all.Rules), err)
	}
}

func BenchmarkReadRules(b *testing.B) {
	file := filepath.Join(b.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, manyRules(10_000), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := ReadRules(file); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSigners: the first entry that matches a provider applies.
func TestSigners(t *testing.T) {
	const first, other = "C874011F0AB405110D02105534365D9472D7468F", "0123456789ABCDEF0123456789ABCDEF01234567"
	name := filepath.Join(t.TempDir(), "modproxy.yaml")
	text := fmt.Sprintf("providers:\n  keys:\n  - {provider: A.example/acme/*, fingerprints: [%s]}\n  - {provider: '*/*/*', fingerprints: ['%s', '%s']}\n",
		strings.ToLower(first), first, other)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(name, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for m, want := range map[modproxy.Address]modproxy.Keys{
		modproxy.NewProvider("a.example", "acme", "toy"): first, modproxy.NewProvider("b.example", "acme", "toy"): other + " " + first,
		{Host: "a.example", Namespace: "acme", Name: "vpc", System: "aws"}: "",
	} {
		if keys, ok := c.Providers.Keys.Signers(m); keys != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", m, keys, ok, want)
		}
	}
}
