package app

import (
	"path/filepath"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
)

// TestCredentialIsForModules: a credential is used only for the modules in its scopes.
func TestCredentialIsForModules(t *testing.T) {
	c := config.Default()
	c.Credentials = []config.Credential{
		{Host: "git.example.com", Username: "u", Password: egress.NewSecret("secret-password"), Scopes: []auth.Scope{{Host: "registry.example.com", Namespace: "acme"}}},
		{Host: "ssh.example.com", SSHKeyFile: "key", KnownHostsFile: "known", Scopes: []auth.Scope{{Host: "*", Namespace: "acme"}}},
		{Host: "any.example.com", Password: egress.NewSecret("secret-password"), TokenHost: "tokens.example.com"},
	}
	all := newCredentials(c)
	for _, tt := range []struct {
		host, namespace string
		https, ssh, any bool
	}{
		{"registry.example.com", "acme", true, true, true},
		{"registry.example.org", "acme", false, true, true},
		{"registry.example.com", "attacker", false, false, true},
	} {
		shown := all.For(modproxy.Address{Host: tt.host, Namespace: tt.namespace, Name: "network", System: "aws"})
		https := !shown.Of("git.example.com").Password.IsZero()
		ssh := filepath.IsAbs(shown.Of("ssh.example.com").SSHKeyFile)
		any := !shown.Of("any.example.com").Password.IsZero()
		if https != tt.https || ssh != tt.ssh || any != tt.any {
			t.Errorf("%s/%s: https %v, ssh %v, any %v; want %+v", tt.host, tt.namespace, https, ssh, any, tt)
		}
		if c := shown.Of("any.example.com"); c.TokenHost != "tokens.example.com" {
			t.Errorf("the token host is %q", c.TokenHost)
		}
		if c := shown.Of("any.example.com:8443"); !c.Password.IsZero() {
			t.Error("another port is shown the credential")
		}
		if c := shown.Of("any.example.com"); c.SSHKeyFile != "" {
			t.Error("a password is taken for a key")
		}
	}
}
