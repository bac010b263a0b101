package app

import (
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/egress"
)

// Git is shown a credential for those modules only that the credential is for.
func TestGitCredentialIsForModules(t *testing.T) {
	c := config.Default()
	c.Credentials = []config.Credential{
		{Host: "git.example.com", Username: "u", Password: egress.NewSecret("secret-password"), Scopes: []string{"Registry.example.com/acme"}},
		{Host: "ssh.example.com", SSHKeyFile: "key", KnownHostsFile: "known", Scopes: []string{"*/acme"}},
		{Host: "any.example.com", Password: egress.NewSecret("secret-password")},
	}
	out, err := egress.New(egress.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	fetcher, err := (&App{egress: out}).newGit(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		host, namespace string
		https, ssh, any bool
	}{
		{"registry.example.com", "acme", true, true, true},
		{"registry.example.org", "acme", false, true, true},
		{"registry.example.com", "attacker", false, false, true},
	} {
		f := fetcher(modproxy.Module{Host: tt.host, Namespace: tt.namespace, Name: "network", System: "aws"})
		_, _, https := f.Credential("https://git.example.com")
		_, ssh := f.SSH("ssh.example.com")
		_, _, any := f.Credential("https://any.example.com")
		if https != tt.https || ssh != tt.ssh || any != tt.any {
			t.Errorf("%s/%s: https %v, ssh %v, any %v; want %+v", tt.host, tt.namespace, https, ssh, any, tt)
		}
		for _, origin := range []string{"http://any.example.com", "any.example.com", "https://any.example.com:8443"} {
			if _, _, ok := f.Credential(origin); ok {
				t.Errorf("%s is shown the credential", origin)
			}
		}
		if _, ok := f.SSH("any.example.com"); ok {
			t.Error("a password is taken for a key")
		}
	}
}
