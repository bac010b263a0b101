package disk_test

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

func TestReplacePackage(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, dir)
	m := modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "vpc", System: "aws"}
	first := cache.PackageRecord{Digest: modproxy.Digest{1}, Sum: "h1:first", Size: 1}
	second := cache.PackageRecord{Digest: modproxy.Digest{2}, Sum: "h1:second", Size: 2}
	if err := s.PutPackage(m, "1.0.0", first); err != nil {
		t.Fatal(err)
	}
	if err := s.ReplacePackage(m, "1.0.0", "h1:third", second); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("ReplacePackage of what is not there = %v, want ErrChanged", err)
	}
	if err := s.ReplacePackage(m, "1.0.0", first.Sum, second); err != nil {
		t.Fatal(err)
	}
	if err := s.PutPackage(m, "1.0.0", first); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("PutPackage of what was replaced = %v, want ErrChanged", err)
	}
	s.Close()
	if got, err := mustOpen(t, dir).Package(m, "1.0.0"); err != nil || got != second {
		t.Errorf("Package = %v, %v; want the second", got, err)
	}
}
