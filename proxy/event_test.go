package proxy

import (
	"bytes"
	"errors"
	"net/http/httptest"
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
	var log bytes.Buffer
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{LevelKey: "level", MessageKey: "message", EncodeLevel: zapcore.LowercaseLevelEncoder})
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
