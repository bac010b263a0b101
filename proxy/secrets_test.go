package proxy_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy/proxy"
)

// A credential in the place of a part of an address is neither in the log nor in the answer, which others may be shown.
func TestCredentialInAnAddress(t *testing.T) {
	const id, secret = "hrvvrizwvbndcnwy", "3uxw7yyzh2bu5wdagqlqj4kbgrhnhf2lvkq3pr4qzpsmv6wxnsyq"
	var out bytes.Buffer
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "message"})
	h := newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.Upstreams.Any = true
		c.Log = zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&out), zapcore.InfoLevel))
	})
	for what, credential := range map[string]string{
		"token":            "mp_" + id + "_" + secret,
		"most of a token":  "mp_" + id + "_" + secret[:44],
		"behind something": strings.Repeat("9", 40) + "mp_" + id + "_" + secret, // which is cut off behind
		"escaped":          "mp%5f" + id + "%5F" + secret,
		"JWT":              "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkcCJ9." + secret,
	} {
		for _, path := range []string{
			"/HERE/v1/modules/acme/network/aws/versions", "/" + host + "/v1/modules/HERE/network/aws/versions",
			"/" + host + "/v1/modules/acme/HERE/aws/versions", "/" + host + "/v1/modules/acme/network/HERE/versions",
			base + "/HERE/download", base + "/1.0.0-HERE/download", base + "/1.1.0/HERE", files + "/1.1.0/HERE.tar.gz", files + "/HERE/x.tar.gz",
			"/v1/modules/HERE/network/aws/1.0.0/download", "/HERE", "/-/HERE", "/x/HERE/v1/modules/",
		} {
			out.Reset()
			res := get(h, strings.ReplaceAll(path, "HERE", credential), "User-Agent", "x/"+strings.NewReplacer("%5f", "_", "%5F", "_").Replace(credential))
			if text := body(t, res); strings.Contains(text, secret[:8]) || res.StatusCode == http.StatusOK {
				t.Errorf("%s at %s: answered %s %s", what, path, res.Status, text)
			}
			if strings.Contains(out.String(), secret[:8]) || out.Len() == 0 {
				t.Errorf("%s at %s: logged %s", what, path, &out)
			}
		}
	}
}
