package policy_test

import (
	"context"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/app"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/policy"
)

// undecided is a ledger without decisions.
type undecided struct{ policy.Ledger }

func (undecided) Decisions(context.Context, int64) ([]modproxy.Decision, int64, error) {
	return nil, 0, nil
}

// plainly returns versions without conditions.
func plainly(versions []modproxy.Ref) (all []policy.ServedVersion) {
	for _, v := range versions {
		all = append(all, policy.ServedVersion{Ref: v})
	}
	return all
}

// The suggested rules allow the served versions and no other module. With bounds, they allow the versions between the bounds
// and no others.
func TestSuggest(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewSource(seed))
	pick := func(from ...string) string { return from[r.Intn(len(from))] }
	module := func() modproxy.Address {
		return modproxy.Address{
			Host: pick("registry.terraform.io", "r.example.com:8443", "127.0.0.1:9", "xn--bcher-kva.example"), Namespace: pick("acme", "ACME", "1e5", "null"),
			Name: pick("vpc", "no", "a_b-c"), System: pick("aws", "0"),
		}
	}
	name := filepath.Join(t.TempDir(), "policy.yaml")
	for range 300 {
		var served []modproxy.Ref
		has := map[modproxy.Address]bool{}
		for range r.Intn(12) {
			v := module().At(pick("1.0.0", "1.2.3", "1.10.0", "2.0.0-rc1", "2.0.0-rc.2", "1.2.3+build.7", "0.0.1-alpha+b"))
			served = append(served, v)
			has[v.Address.Folded()] = true
		}
		bounds := r.Intn(2) == 0
		text, err := policy.Suggest(plainly(served), bounds)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c := config.Default().WithRules(name)
		c.Policy.Default = "deny"
		rules, err := app.PolicyOf(c)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if !bounds && len(rules.Rules) != len(has) {
			t.Fatalf("%d rules for %d modules\n%s", len(rules.Rules), len(has), text)
		}
		gate := policy.NewGate(undecided{}, nil)
		gate.Use(rules)
		ask := func(v modproxy.Ref) bool {
			verdict, err := gate.Decide(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			return !verdict.Refused()
		}
		for _, v := range served {
			if !ask(v) {
				t.Fatalf("%s is refused by\n%s", v, text)
			}
			for _, beyond := range []string{"0.0.1", "9.9.9", "1.5.0-rc1", "2.0.0-rc1+x", "0.0.1-alpha"} {
				if bounds && ask(v.At(beyond)) {
					t.Fatalf("%s is allowed by\n%s", v.At(beyond), text)
				}
			}
		}
		for range 10 {
			if m := module(); ask(m.At("1.0.0")) && !has[m.Folded()] {
				t.Fatalf("%s is allowed by\n%s", m, text)
			}
		}
	}
}

// The rules of a namespace are adjacent, in the order of their names.
func TestSuggestReads(t *testing.T) {
	var served []modproxy.Ref
	for address := range strings.FieldsSeq("b.example/x/vpc/aws a.example/z/one/aws b.example/x/dns/aws a.example/z/one/aws") {
		part := strings.Split(address, "/")
		m := modproxy.Address{Host: part[0], Namespace: part[1], Name: part[2], System: part[3]}
		for _, v := range []string{"1.10.0", "1.9.0", "2.0.0-rc1"} {
			served = append(served, m.At(v))
		}
	}
	text, err := policy.Suggest(plainly(served[:6]), true)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(text), "rules:\n")
	want := `  # a.example/z
  - allow: a.example/z/one/aws
    versions: ">= 1.9.0, <= 1.10.0"
  - allow: a.example/z/one/aws
    versions: "2.0.0-rc1"
  # b.example/x
  - allow: b.example/x/vpc/aws
    versions: ">= 1.9.0, <= 1.10.0"
  - allow: b.example/x/vpc/aws
    versions: "2.0.0-rc1"
`
	if got != want {
		t.Error(got)
	}
	again, err := policy.Suggest(plainly(append(served, served...)), false)
	if err != nil || strings.Count(string(again), "allow") != 3 || !strings.Contains(string(again), "x/dns/aws\n  - allow: b.example/x/vpc") {
		t.Errorf("%v\n%s", err, again)
	}
}

// Rules that are suggested from rules in force allow nothing that those do not allow: neither other content than a lock file
// lists, nor versions that the rules are not about.
func TestSuggestLoosensNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	right, wrong := modproxy.Sum("h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="), modproxy.Sum("h1:"+strings.Repeat("A", 43)+"=")
	locked := func(names ...string) (text string) {
		for _, name := range names {
			text += "r.example.com/acme/" + name + "/aws 1.0.0 " + string(right) + "\n"
		}
		return text
	}
	for name, text := range map[string]string{
		"all.lock": locked("locked", "both", "plain", "beside"), "infra \"1\".lock": locked("infra"),
		"force.yaml": `rules:
  - allow_locked: [all*.lock]
  - allow_locked: ['infra "1".lock']
    groups: [infra]
  - allow: r.example.com/acme/both/aws
    approval: required
  - allow: r.example.com/acme/plain/aws
  - allow: r.example.com/acme/ranged/aws
    versions: "!= 1.1.0"
  - allow: r.example.com/acme/holed/aws
  - deny: r.example.com/acme/holed/aws
    versions: "1.1.0"
`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) *policy.Rules {
		c := config.Default().WithRules(file)
		c.Policy.Default = "deny"
		rules, err := app.PolicyOf(c)
		if err != nil {
			t.Fatal(err)
		}
		return rules
	}
	force := read("force.yaml")
	served := map[modproxy.Ref]bool{} // by version; true if audit mode served it
	var all []policy.ServedVersion
	for _, one := range []string{
		"locked 1.0.0", "both 1.0.0", "both 2.0.0", "plain 1.0.0", "infra 1.0.0", "ranged 1.0.0", "ranged 2.0.0",
		"holed 1.0.0", "holed 2.0.0", "beside 2.0.0", "free 1.0.0",
	} {
		name, version, _ := strings.Cut(one, " ")
		v := modproxy.Address{Host: "r.example.com", Namespace: "acme", Name: name, System: "aws"}.At(version)
		served[v] = true
		all = append(all, policy.ServedVersion{Ref: v, Conditions: force.ConditionsOf(v), Exact: force.DistinguishVersions(v.Address)})
	}
	for _, bounds := range []bool{false, true} {
		text, err := policy.Suggest(all, bounds)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("policy.yaml", text, 0o600); err != nil {
			t.Fatal(err)
		}
		suggested := read("policy.yaml")
		for v := range served {
			for _, version := range []string{"1.0.0", "1.1.0", "2.0.0", "3.0.0"} {
				v := v.At(version)
				for _, groups := range [][]string{nil, {"infra"}} {
					for _, sum := range []modproxy.Sum{right, wrong} {
						decide := func(rules *policy.Rules) policy.Outcome {
							parsed, err := modproxy.ParseVersion(version)
							if err != nil {
								t.Fatal(err)
							}
							return rules.For(v.Address, groups).Decide(parsed, policy.VersionFacts{Sum: sum}, policy.Decided{}, time.Time{}).Outcome
						}
						was, is := decide(force), decide(suggested)
						free := v.Name == "free" || v.Name == "beside" && version == "2.0.0" // no rule is about it, and it was served
						if is == policy.Allowed && was != policy.Allowed && !free || served[v] && is != was && !free {
							t.Errorf("%s for %v, with the content %s: %s, was %s in\n%s", v, groups, sum, is, was, text)
						}
						if free && served[v] && is != policy.Allowed {
							t.Errorf("%s: %s in\n%s", v, is, text)
						}
					}
				}
			}
		}
		if got := strings.Count(string(text), "allow_locked"); got != 2 {
			t.Errorf("%d rules about lock files in\n%s", got, text)
		}
	}
}
