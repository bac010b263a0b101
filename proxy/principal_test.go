package proxy_test

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// For a client that may not read a package, the package does not exist. The log has its principal. The request counts for the rate of
// the principal, and not of an address that several clients may share.
func TestForbiddenPackageHasAPrincipal(t *testing.T) {
	var out bytes.Buffer
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "message"})
	synctest.Test(t, func(t *testing.T) {
		kept, err := auth.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
		if err != nil {
			t.Fatal(err)
		}
		other, _, err := kept.Create(t.Context(), auth.Token{Name: "other", Scopes: []auth.Scope{{Host: host, Namespace: "other"}}})
		if err != nil {
			t.Fatal(err)
		}
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			c.Auth, c.Registry = &auth.Authenticator{Tokens: kept}, &auth.Registry{Next: c.Registry}
			c.Limits.Rate = 1
			c.Log = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zapcore.InfoLevel))
		})
		for _, c := range []struct {
			header []string
			status int
			after  time.Duration
		}{{bearer(other), 404, 0}, {nil, 401, 0}, {bearer(other), 404, time.Second}} {
			start := time.Now()
			if res := get(h, archive, c.header...); res.StatusCode != c.status || time.Since(start) != c.after {
				t.Errorf("%v: %s after %v; want %d after %v", c.header, res.Status, time.Since(start), c.status, c.after)
			}
		}
	})
	if n := strings.Count(out.String(), `"principal":"token other (`); n != 2 {
		t.Errorf("%d of 2 requests are logged with who sent them: %s", n, &out)
	}
}

// Clients without a credential are distinguished by their addresses, and have no groups.
func TestAnybodyIsAnAddress(t *testing.T) {
	var askers []modproxy.Client
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, func(c *proxy.Config, _ *scripted) {
			anybody := auth.Scopes{{Host: host, Namespace: "acme"}}
			c.Auth, c.Registry = &auth.Authenticator{Anonymous: anybody}, &auth.Registry{Next: &overheard{c.Registry, &askers}}
			c.Limits.Rate = 1
		})
		for _, c := range []struct {
			from  string
			after time.Duration
		}{{"192.0.2.1:1", 0}, {"192.0.2.2:1", 0}, {"192.0.2.1:2", time.Second}} {
			start := time.Now()
			if res := get(h, base+"/versions", "Test-From", c.from); res.StatusCode != 200 || time.Since(start) != c.after {
				t.Errorf("%s: %s after %v; want 200 after %v", c.from, res.Status, time.Since(start), c.after)
			}
		}
		if res := get(h, "/"+host+"/v1/modules/other/network/aws/versions"); res.StatusCode != 401 {
			t.Errorf("what is not for anybody: %s", res.Status)
		}
	})
	for i, want := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.1"} {
		if a := askers[i]; a.Name != want || a.DisplayName != want || a.Groups != nil {
			t.Errorf("%+v has asked; want %s", a, want)
		}
	}
}

// overheard records the clients that request versions.
type overheard struct {
	modproxy.Registry
	by *[]modproxy.Client
}

func (o *overheard) Versions(ctx context.Context, m modproxy.Address) (*modproxy.Versions, error) {
	*o.by = append(*o.by, modproxy.ClientOf(ctx))
	return o.Registry.Versions(ctx, m)
}
