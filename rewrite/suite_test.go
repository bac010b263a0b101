package rewrite_test

import (
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/rewrite"
	"github.com/modproxy/modproxy/test/registrytest"
)

func TestRegistry(t *testing.T) {
	const host = "registry.example.com"
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry {
		next, err := registrytest.NewMemory(host, registrytest.Modules())
		if err != nil {
			t.Fatal(err)
		}
		return &rewrite.Registry{Next: next}
	})
}
