package modproxy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/apparentlymart/go-versions/versions"
	goversion "github.com/hashicorp/go-version"

	"github.com/modproxy/modproxy"
)

func constraint(t testing.TB, s string) modproxy.Constraint {
	t.Helper()
	c, err := modproxy.ParseConstraint(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConstraint(t *testing.T) {
	for _, test := range []struct {
		constraint, version string
		selects, covers     bool
	}{
		{"1.2.3", "1.2.3", true, true},
		{"= v1.2", "1.2.0", true, true},
		{">= 5.0.0, != 5.1.2", "5.1.2", false, false},
		{">= 5.0.0, != 5.1.2", "5.1.3", true, true},
		{"~> 1.2", "1.9.0", true, true},
		{"~> 1.2", "2.0.0", false, false},
		{"~> 1.2.3", "1.2.9", true, true},
		{"~> 1.2.3", "1.3.0", false, false},
		{"~> 1", "9.0.0", true, true},
		{"1.2.3-rc1", "1.2.3-rc1", true, true},
		{"1.2.3-rc1, >= 1.0.0", "1.2.3-rc1", false, true},
		{">= 1.0.0", "1.2.3-rc1", false, true},
		{">= 1.2.3", "1.2.3-rc1", false, true},
		{"< 1.2.3", "1.2.3-rc1", false, true},
		{"~> 2.0", "2.0.0-beta", false, true},
		{">= 1.2.3-rc1", "1.2.3", true, true},
		{"~> 1.2.3-rc1", "1.2.3", false, true},
		{"1.2.3", "1.2.3+build", true, true},
	} {
		c := constraint(t, test.constraint)
		v, err := modproxy.ParseVersion(test.version)
		if err != nil {
			t.Fatal(err)
		}
		if c.Selects(v) != test.selects || c.Covers(v) != test.covers {
			t.Errorf("%q and %s: selects %v, covers %v; want %v, %v",
				test.constraint, test.version, c.Selects(v), c.Covers(v), test.selects, test.covers)
		}
	}
	for _, s := range []string{"", ",", ">= ", ">= 1.0,", "latest", "^1.0", "1.x", ">> 1", "=> 1.0", "~>"} {
		if _, err := modproxy.ParseConstraint(s); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
	if v, _ := modproxy.ParseVersion("1.0.0-rc1"); !(modproxy.Constraint{}).Selects(v) {
		t.Error("the zero constraint does not select a pre-release")
	}
}

// The clients' library is the reference for releases. Clients use another library for pre-releases: only the named
// pre-release is selected, and every selected version is covered.
func TestCanonicalConstraint(t *testing.T) {
	for text, want := range map[string]string{
		"v1.2":            "1.2.0",
		"= 1.2.0.0+build": "1.2.0",
		"1.2.0.1":         "1.2.0.1",
		">=1,<2.0":        ">= 1.0.0, < 2.0.0",
		"~>1.2":           "~> 1.2",
		"~> v1.2.0":       "~> 1.2.0",
		"!= 1.0-rc1+b":    "!= 1.0.0-rc1",
	} {
		if got := constraint(t, text).Canonical(); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func FuzzConstraint(f *testing.F) {
	for _, s := range []string{">= 5.0.0, != 5.1.2", "~> 1.2", "~>1.2.3-rc1", "1", "= v1.2.3+b", " > 0.1 ,<2", "~> 1.2.3.4.5", "\v1"} {
		f.Add(s, "1.2.3")
	}
	f.Fuzz(func(t *testing.T, text, version string) {
		if len(text) > 400 || len(version) > 200 {
			return
		}
		c, err := modproxy.ParseConstraint(text)
		theirs, errTheirs := goversion.NewConstraint(text)
		if (err == nil) != (errTheirs == nil) {
			t.Fatalf("%q: %v; the clients: %v", text, err, errTheirs)
		}
		v, errVersion := modproxy.ParseVersion(version)
		if err != nil || errVersion != nil {
			return
		}
		selects := c.Selects(v)
		again, err := modproxy.ParseConstraint(c.Canonical())
		if err != nil || again.Canonical() != c.Canonical() || again.Selects(v) != selects || again.Covers(v) != c.Covers(v) {
			t.Fatalf("%q and %s: its canonical spelling %q is another constraint: %v", text, v, c.Canonical(), err)
		}
		if strings.Count(v.String(), ".") != 2 || slices.ContainsFunc(theirs, func(c *goversion.Constraint) bool {
			return c.Prerelease() && strings.Count(strings.TrimLeft(c.String(), " "), ".") > 2
		}) {
			return // for the library, 1.2.3.0 is equal to every pre-release of 1.2.3, which contradicts any order
		}
		if want := theirs.Check(goversion.Must(goversion.NewVersion(version))); !v.Prerelease() && selects != want {
			t.Fatalf("%q and %s: %v; the clients: %v", text, v, selects, want)
		}
		if selects && !c.Covers(v) {
			t.Fatalf("%q selects %s and does not cover it", text, v)
		}
		if selects && v.Prerelease() && len(theirs) > 1 {
			t.Fatalf("%q selects the pre-release %s", text, v)
		}
	})
}

// clientSelects returns what both clients decide about a version in a list (internal/initwd/module_install.go of Terraform
// 1.11 and OpenTofu 1.12). hashicorp/go-version checks every version. apparentlymart/go-versions also checks pre-releases, by
// the text of the constraint and by other rules. OpenTofu retries without a v before the numbers.
func clientSelects(t *testing.T, text, version string) bool {
	t.Helper()
	required, err := goversion.NewConstraint(text)
	if err != nil {
		t.Fatal(err)
	}
	v := goversion.Must(goversion.NewVersion(version))
	if v.Prerelease() != "" {
		acceptable, err := versions.MeetingConstraintsString(required.String())
		if err != nil {
			return false
		}
		theirs, err := versions.ParseVersion(v.String())
		if err != nil || !acceptable.Has(theirs) {
			return false
		}
	}
	return required.Check(v)
}

// The clients choose by two libraries, which differ in corner cases. A rule selects what both clients choose, except for the
// rows with a reason.
func TestConstraintsOfTheClients(t *testing.T) {
	for _, test := range []struct {
		constraint, version string
		client, selects     bool
		why                 string
	}{
		{"1.2.3", "1.2.3", true, true, ""},
		{"~> 1.2", "1.9.0", true, true, ""},
		{"~> 1.2", "1.9.0-rc1", false, false, ""},
		{"1.2.3-rc1", "1.2.3-rc1", true, true, ""},
		{"=1.2.3-rc1", "1.2.3-rc1", true, true, ""},
		{"= 1.2.3-rc1", "1.2.3-rc1", false, true, "go-versions has no blank behind the sign; a rule that names a version means it"},
		{">= 1.2.3-rc1", "1.2.3-rc1", false, false, "go-version would choose it, go-versions wants it exactly"},
		{">= 1.2.3-rc1", "1.2.3", true, true, ""},
		{"~> 1.2.3-rc1", "1.2.3-rc1", false, false, "the same"},
		{"1.2.3-rc1, >= 1.0.0", "1.2.3-rc1", false, false, "go-versions has no commas"},
		{"1.2.3-rc1, 1.2.3-rc1", "1.2.3-rc1", false, false, "the same"},
		{"!= 1.2.3-rc1", "1.2.3-rc2", false, false, ""},
		{"!= 1.2.3-rc1", "1.2.3", true, true, ""},
		{"1.2.3+a", "1.2.3+b", true, true, "build metadata does not count"},
		{"v1.2.3-rc1", "1.2.3-rc1", false, true, "go-versions knows no v: OpenTofu tries without it, Terraform does not choose it"},
		{"= v1.2.3", "1.2.3", true, true, ""},
	} {
		if got := clientSelects(t, test.constraint, test.version); got != test.client {
			t.Errorf("%q and %s: the libraries choose it: %v, want %v", test.constraint, test.version, got, test.client)
		}
		v, err := modproxy.ParseVersion(test.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := constraint(t, test.constraint).Selects(v); got != test.selects {
			t.Errorf("%q and %s: selects %v, want %v (%s)", test.constraint, test.version, got, test.selects, test.why)
		}
		if test.client != test.selects && test.why == "" {
			t.Errorf("%q and %s: the difference has no reason", test.constraint, test.version)
		}
	}
}
