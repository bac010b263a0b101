package modproxy_test

import (
	"testing"

	"github.com/modproxy/modproxy"
)

// What was made of a version tells which one, and is a version in its canonical spelling.
func TestMade(t *testing.T) {
	m := modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	sum := modproxy.NewSum([32]byte{1, 2, 3})
	for _, version := range []string{"1.2.3", "1.2.3-rc.1", "1.2.3+b5", "1.2.3-rc.1+b.5", "1.2.3+xmodproxy.y"} {
		made := m.At(version).NestedAddress("ab", sum)
		if canonical, err := modproxy.CanonicalVersion(made.Version); err != nil || canonical != made.Version {
			t.Errorf("%s is canonically %q, %v", made, canonical, err)
		}
		if of, what := made.Origin(); of != m.At(version) || what == "" || !made.IsNestedAddress() || !made.IsRecordOnly() {
			t.Errorf("Origin of %s = %s, %q", made, of, what)
		}
		if of, base, parsed, ok := made.ParseNestedAddress(); of != m.At(version) || base != "ab" || parsed != sum || !ok {
			t.Errorf("%s is %s, %q, %s, %v", made, of, base, parsed, ok)
		}
		if derived := m.At(version).Derived(sum); derived.IsNestedAddress() || !derived.IsRecordOnly() {
			t.Errorf("derived is %s", derived)
		}
		if of, what := m.At(version).Origin(); of != m.At(version) || what != "" {
			t.Errorf("Origin of %s = %s, %q", m.At(version), of, what)
		}
	}
}
