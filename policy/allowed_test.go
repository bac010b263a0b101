package policy_test

import (
	"strings"
	"testing"

	"github.com/modproxy/modproxy/policy"
)

// If no rule allows a version, the refusal names the versions that rules allow for the client.
func TestRefusalNamesAllowedVersions(t *testing.T) {
	for want, lines := range map[string][]string{
		"no rule allows it: ask":                                                     {"allow group=infra " + all + " >= 2"},
		"no rule allows it (allowed: >= 2): choose one":                              {"allow " + all + " >= 2"},
		"no rule allows it (allowed: >= 2 or 0.9.0): choose one":                     {"allow " + all + " >= 2", "allow " + all + " 0.9.0", "allow group=infra " + all + " 0.8.0"},
		"no rule allows it (allowed: 0.1.0 or 0.2.0 or 0.3.0 or others): choose one": {"allow " + all + " 0.1.0", "allow " + all + " 0.2.0", "allow " + all + " 0.3.0", "allow " + all + " 0.4.0"},
	} {
		g := gate(rules(t, lines...))
		verdict, err := g.Decide(t.Context(), vpc.At("1.0.0"))
		if err != nil {
			t.Fatal(err)
		}
		text := (&policy.Refusal{Verdict: verdict, Ref: vpc.At("1.0.0")}).Error()
		if !strings.Contains(text, want) {
			t.Errorf("%q has no %q", text, want)
		}
	}
}
