package modproxy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
)

// What was made of a version tells which one, and is a version in its canonical spelling.
func TestMade(t *testing.T) {
	m := modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	for _, version := range []string{"1.2.3", "1.2.3-rc.1", "1.2.3+b5", "1.2.3-rc.1+b.5", "1.2.3+xmodproxy.y"} {
		made := m.At(version).Made("nested.ab.cd")
		if canonical, err := modproxy.CanonicalVersion(made.Version); err != nil || canonical != made.Version {
			t.Errorf("%s is canonically %q, %v", made, canonical, err)
		}
		if of, what := made.Origin(); of != m.At(version) || what != "nested.ab.cd" || !made.IsNestedAddress() {
			t.Errorf("Origin of %s = %s, %q", made, of, what)
		}
		if of, what := m.At(version).Origin(); of != m.At(version) || what != "" {
			t.Errorf("Origin of %s = %s, %q", m.At(version), of, what)
		}
	}
}
