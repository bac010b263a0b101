package proxy

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
)

// loggedRequest is the log entry of a request of which all is known. Programs read
// these names.
const loggedRequest = `{"level":"warn","message":"request","kind":"download","module":"registry.example.com/acme/network/aws",` +
	`"version":"1.0.0","platform":"linux_amd64","method":"GET","path":"/path","status":404,"bytes":7,"seconds":0,"client":"192.0.2.7",` +
	`"user_agent":"OpenTofu/1.12","principal":"issuer job (3f)","groups":["infra","ops"],"cache":"modproxy; hit","error":"not found"}
`

func TestLoggedRequest(t *testing.T) {
	config := zapcore.EncoderConfig{LevelKey: "level", MessageKey: "message", EncodeLevel: zapcore.LowercaseLevelEncoder}
	for _, encoder := range []zapcore.Encoder{zapcore.NewJSONEncoder(config), LogEncoder(config)} {
		var log bytes.Buffer
		h := New(Config{Log: zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&log), zapcore.InfoLevel))})
		r := httptest.NewRequest("GET", "/path?secret", nil)
		r.Header.Set("User-Agent", "OpenTofu/1.12")
		h.record(r, &Event{
			Time: time.Now(), Kind: "download", Module: modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"},
			Version: "1.0.0", Platform: "linux_amd64", Status: 404, Bytes: 7, Cache: "modproxy; hit", Client: "192.0.2.7",
			Principal: "issuer job (3f)", Groups: []string{"infra", "ops"}, Err: errors.New("not found"),
		})
		got := regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAllString(log.String(), `"seconds":0`)
		if got != loggedRequest {
			t.Errorf("logged\n%swant\n%s", got, loggedRequest)
		}
	}
}

// The entry of a request is what zap makes of it, in every log.
func FuzzLogEncoder(f *testing.F) {
	f.Add("registry", "GET", "/a path\x00\x1f\x7f\u2028", "agent \"1\" \\ \r\n\t <&> \xff\xc3", "group", int64(7), 1.5e-9)
	f.Add("", "", "é😀\ufffd\xed\xa0\x80", "", "", int64(-1), 1e300)
	f.Fuzz(func(t *testing.T, host, method, path, agent, group string, number int64, seconds float64) {
		config := zap.NewProductionEncoderConfig()
		config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"User-Agent": {agent}}}
		l := &line{&Event{Module: modproxy.Module{Host: host}, Bytes: number, Client: agent}, r, time.Duration(seconds * float64(time.Second))}
		if group != "" {
			l.Groups, l.Err = []string{group, path}, errors.New(group)
		}
		entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Unix(0, number), Message: "request"}
		for i, field := range []zapcore.Field{zap.Inline(l), zap.Any("other", group), zap.Inline(l)} {
			config.LineEnding, config.SkipLineEnding = []string{"\n", "", "\r\n"}[i], number == 0
			var texts [2]string
			for i, encoder := range []zapcore.Encoder{zapcore.NewJSONEncoder(config), LogEncoder(config)} {
				encoder.AddString("with", host)
				b, err := encoder.Clone().EncodeEntry(entry, []zapcore.Field{field})
				if err != nil {
					t.Fatal(err)
				}
				texts[i] = b.String()
			}
			if texts[0] != texts[1] {
				t.Errorf("%s\nwant\n%s", texts[1], texts[0])
			}
		}
	})
}
