package hostname_test

import (
	"testing"

	"github.com/modproxy/modproxy/hostname"
)

func TestIsLocal(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LocalHost.": true, "modules.localhost": true,
		"": false, ".": false, "notlocalhost": false, "localhost.example": false, "localhost:80": false,
		"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "192.0.2.1": false, "127.0.0.1.example.com": false,
	} {
		if got := hostname.IsLocal(name); got != want {
			t.Errorf("%q: %v; want %v", name, got, want)
		}
	}
}
