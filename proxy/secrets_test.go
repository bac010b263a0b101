package proxy_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy/proxy"
)

// agentOf returns a credential for a header.
func agentOf(credential string) string {
	if text, err := url.PathUnescape(credential); err == nil && !strings.Contains(text, "\x00") {
		return text
	}
	return credential
}

// A credential in the place of a part of an address appears neither in the log nor in the answer, which other people may read.
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
		"escaped twice":    "mp%255f" + id + "_" + secret,
		"three times":      "mp%25255F" + id + "_" + secret,
		"with a NUL":       "mp_" + id + "%00_" + secret,
		"with a space":     "mp_" + id + "%E2%80%8B_" + secret, // of no width
		"with a mark":      "mp_" + id[:8] + "%E2%80%AE" + id[8:] + "_" + secret,
		"with a bad byte":  "mp_" + id[:8] + "%ff" + id[8:] + "_" + secret,
		"with another":     "mp_" + id + "%C2%85_" + secret,
		"escaped mark":     "mp_" + id + "%25E2%2580%258B_" + secret,
		"JWT":              "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkcCJ9." + secret,
	} {
		for _, path := range []string{
			"/HERE/v1/modules/acme/network/aws/versions", "/" + host + "/v1/modules/HERE/network/aws/versions",
			"/" + host + "/v1/modules/acme/HERE/aws/versions", "/" + host + "/v1/modules/acme/network/HERE/versions",
			base + "/HERE/download", base + "/1.0.0-HERE/download", base + "/1.1.0/HERE", files + "/1.1.0/HERE.tar.gz", files + "/HERE/x.tar.gz",
			"/v1/modules/HERE/network/aws/1.0.0/download", "/HERE", "/-/HERE", "/x/HERE/v1/modules/",
		} {
			out.Reset()
			res := get(h, strings.ReplaceAll(path, "HERE", credential), "User-Agent", "x/"+agentOf(credential))
			if text := body(t, res); strings.Contains(text, secret[:8]) || res.StatusCode == http.StatusOK {
				t.Errorf("%s at %s: answered %s %s", what, path, res.Status, text)
			}
			if strings.Contains(out.String(), secret[:8]) || out.Len() == 0 {
				t.Errorf("%s at %s: logged %s", what, path, &out)
			}
		}
	}
}
