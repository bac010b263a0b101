package upstream_test

import (
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/test/registrytest"
	"github.com/modproxy/modproxy/upstream"
)

func TestRouterIsARegistry(t *testing.T) {
	u := registrytest.New(t, registrytest.Modules())
	registrytest.TestRegistry(t, u.Host, func(t testing.TB) modproxy.Registry {
		return &upstream.Router{Hosts: map[string]upstream.Registry{u.Host: newClient(t, u, nil)}}
	})
}
