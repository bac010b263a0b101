package hostname_test

import (
	"testing"

	"github.com/modproxy/modproxy/hostname"
)

func TestIsLocalhost(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LocalHost.": true, "modules.localhost": true,
		"": false, ".": false, "notlocalhost": false, "localhost.example": false, "localhost:80": false, "127.0.0.1": false,
	} {
		if got := hostname.IsLocalhost(name); got != want {
			t.Errorf("%q: %v; want %v", name, got, want)
		}
	}
}
