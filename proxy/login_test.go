package proxy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// withLogin has the principals of an issuer that people log in at.
type withLogin struct {
	names
	login *auth.Login
}

func (w withLogin) Login(time.Time) *auth.Login { return w.login }

// Discovery documents of every name have the login, and the error about a bad token says how to log in.
func TestLogin(t *testing.T) {
	login := &auth.Login{
		Client: "cli", GrantTypes: []string{"authz_code"}, Ports: [2]int{10000, 10010},
		Authorize: "https://idp.example/authorize?a=b&c=d", Token: "https://idp.example/token",
	}
	const shown = `{"client":"cli","grant_types":["authz_code"],"authz":"https://idp.example/authorize?a=b\u0026c=d",` +
		`"token":"https://idp.example/token","ports":[10000,10010]}`
	for _, known := range []*auth.Login{nil, login} {
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			c.PublicURL = "https://modules.example.com"
			c.Auth = &auth.Authenticator{JWT: withLogin{names{}, known}}
		})
		for _, name := range []string{"modules.example.com", host} {
			var services map[string]json.RawMessage
			res := get(h, "/.well-known/terraform.json", "Host", name)
			if err := json.Unmarshal([]byte(body(t, res)), &services); err != nil || services["modules.v1"] == nil {
				t.Fatal(name, err, services)
			}
			if got := string(services["login.v1"]); got != shown && known != nil || got != "" && known == nil {
				t.Errorf("%s: login.v1 %s", name, got)
			}
		}
		for _, c := range []struct{ path, name, of string }{
			{base + "/versions", "modules.example.com", host},
			{"/v1/modules/acme/network/aws/versions", "modules.example.com", "modules.example.com"},
			{"/v1/modules/acme/network/aws/versions", host, host},
		} {
			path, of := c.path, c.of
			text := body(t, get(h, path, append(bearer("x.x.x"), "Host", c.name)...))
			hint := `run \"terraform login ` + of + `\" or \"tofu login ` + of + `\", or set TF_TOKEN_` + strings.ReplaceAll(of, ".", "_")
			if !strings.Contains(text, "or was revoked: ") || strings.Contains(text, hint) != (known != nil) || !strings.Contains(text, "set TF_TOKEN_") {
				t.Errorf("%s: %s", path, text)
			}
		}
	}
}
