package closure_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/apparentlymart/go-versions/versions"
	goversion "github.com/hashicorp/go-version"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/closure"
	"github.com/modproxy/modproxy/tfconfig"
)

// clientChooses does what installRegistryModule does (internal/initwd/module_install.go of Terraform 1.11 and OpenTofu 1.12).
func clientChooses(client tfconfig.Client, list []string, constraint string) string {
	var required goversion.Constraints
	if constraint != "" {
		var err error
		if required, err = goversion.NewConstraint(constraint); err != nil {
			return ""
		}
	}
	var best *goversion.Version
	for _, text := range list {
		v, err := goversion.NewVersion(text)
		if err != nil {
			continue
		}
		if v.Prerelease() != "" {
			text := required.String()
			acceptable, err := versions.MeetingConstraintsString(text)
			if err != nil && client == tfconfig.OpenTofu {
				text = regexp.MustCompile(goversion.VersionRegexpRaw).ReplaceAllStringFunc(text, func(match string) string {
					if match[0] == 'v' {
						return match[1:]
					}
					return match
				})
				acceptable, err = versions.MeetingConstraintsString(text)
			}
			theirs, errVersion := versions.ParseVersion(v.String())
			if err != nil || errVersion != nil || !acceptable.Has(theirs) {
				continue
			}
		}
		if required.Check(v) && (best == nil || v.GreaterThan(best)) {
			best = v
		}
	}
	if best == nil {
		return ""
	}
	return best.String()
}

var (
	someVersions = []string{
		"1.0.0+b", "1.0.0", "1.0.0-beta.2", "1.0.0-beta.11", "1.1", "1.1.0-rc1", "1.1.0rc2", "v1.2.0", "1.2.0-rc1+x", "1.10.0", "2.0.0-0", "1.2.3.4", "0.1.0",
	} // a fourth number beside a pre-release is left out: go-version ignores it
	someConstraints = []string{
		"", "1.0.0", "= 1.0", "~> 1.0", "~> 1.1.0", ">= 1.1, < 1.10", "!= 1.10.0", "< 1", "> 9", "1.0.0-beta.2", "=1.0.0-beta.2", "= 1.0.0-beta.2",
		"v1.0.0-beta.2", "=v1.0.0-beta.2", "= v1.0.0-beta.2", " 1.0.0-beta.2 ", "1.0.0-beta.02", "1.0-beta.2", "1-beta.2", "1.0.0beta.2",
		">= 1.0.0-beta.2", "~> 1.1.0-rc1", "1.1.0-rc2", "1.1.0rc2", "1.2.0-rc1", "1.2.0-rc1+x", "1.0.0+a", "1.0.0+b", "2.0.0-0", "1.1.0-rc1, 1.1.0-rc1", "01.0.0-beta.2",
		"< 1.0.0", "<= 1.0.0-beta.11", "1.2.3.4", "~> 1.2.3.0", ">= v1.1",
	}
)

func choose(t *testing.T, client tfconfig.Client, texts []string, constraint string) string {
	t.Helper()
	var list []modproxy.Listed
	for _, text := range texts {
		if v, err := modproxy.ParseVersion(text); err == nil {
			list = append(list, modproxy.Listed{Version: v})
		}
	}
	got, err := closure.ChooseModule(client, list, constraint)
	if (err == nil) != (got != "") {
		t.Errorf("%s, %q: %q, %v", client, constraint, got, err)
	}
	return got
}

func TestChoose(t *testing.T) {
	for _, client := range []tfconfig.Client{tfconfig.Terraform, tfconfig.OpenTofu} {
		for _, constraint := range someConstraints {
			for i := range someVersions { // the first of equal versions counts
				list := slices.Concat(someVersions[i:], someVersions[:i])
				if got, want := choose(t, client, list, constraint), clientChooses(client, list, constraint); got != want {
					t.Errorf("%s, %q of %q: %q; it chooses %q", client, constraint, list, got, want)
				}
			}
		}
	}
}

// A version constraint from an untrusted module is rejected, or chooses a listed version.
func FuzzChooseProvider(f *testing.F) {
	for _, constraint := range someConstraints {
		f.Add(constraint)
	}
	f.Add("~> 9223372036854775807")
	f.Add(">= 1.x")
	var list []modproxy.Listed
	for _, text := range someVersions {
		if v, err := modproxy.ParseVersion(text); err == nil {
			list = append(list, modproxy.Listed{Version: v})
		}
	}
	f.Fuzz(func(t *testing.T, constraint string) {
		got, err := closure.ChooseProvider(list, constraint, ">= 0.0.1")
		if (err == nil) != slices.ContainsFunc(list, func(l modproxy.Listed) bool { return l.Version.String() == got }) {
			t.Errorf("%q: %q, %v", constraint, got, err)
		}
	})
}
