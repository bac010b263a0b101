package registrytest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
)

func TestMemory(t *testing.T) {
	const host = "registry.example.com"
	open := func(t testing.TB) *registrytest.Memory {
		m, err := registrytest.NewMemory(host, registrytest.Modules())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	registrytest.TestRegistry(t, host, func(t testing.TB) modproxy.Registry { return open(t) })

	t.Run("before", func(t *testing.T) {
		m, broken := open(t), errors.New("broken")
		m.Before = func(_ context.Context, op string, _ modproxy.Address, version string) error {
			if op == "location" && version == "1.0.0" {
				return broken
			}
			return nil
		}
		acme := modproxy.Address{Host: host, Namespace: "acme", Name: "network", System: "aws"}
		if _, err := m.Location(t.Context(), acme.At("1.0.0")); err != broken {
			t.Errorf("error %v; want %v", err, broken)
		}
		if _, err := m.Location(t.Context(), acme.At("1.1.0")); err != nil {
			t.Error(err)
		}
		if got := m.Calls("location"); got != 2 {
			t.Errorf("%d questions counted; want 2", got)
		}
	})
}
