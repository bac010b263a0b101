package proxy_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/proxy"
)

// A client that may not read a package learns only that it is not there. The log has its principal, and it uses up its own
// rate, not that of an address which it may share.
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
