package httpx

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

// loggedRequest is the log entry of a request with every field. Programs read these names.
const loggedRequest = `{"level":"warn","message":"request","kind":"download","module":"registry.example.com/acme/network/aws",` +
	`"version":"1.0.0","platform":"linux_amd64","method":"GET","path":"/path","status":404,"bytes":7,"seconds":0,"client":"192.0.2.7",` +
	`"user_agent":"OpenTofu/1.12","principal":"issuer job (3f)","groups":["infra","ops"],"cache":"modproxy; hit","error":"not found"}
`

func TestLoggedRequest(t *testing.T) {
	config := zapcore.EncoderConfig{LevelKey: "level", MessageKey: "message", EncodeLevel: zapcore.LowercaseLevelEncoder}
	for _, encoder := range []zapcore.Encoder{zapcore.NewJSONEncoder(config), LogEncoder(config)} {
		var log bytes.Buffer
		p := &Responder{Log: zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&log), zapcore.InfoLevel))}
		r := httptest.NewRequest("GET", "/path?secret", nil)
		r.Header.Set("User-Agent", "OpenTofu/1.12")
		p.record(r, &Event{
			Time: time.Now(), Kind: "download", Module: modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"},
			Version: "1.0.0", Platform: "linux_amd64", Status: 404, Bytes: 7, Cache: "modproxy; hit", Client: "192.0.2.7",
			Principal: "issuer job (3f)", Groups: []string{"infra", "ops"}, Err: errors.New("not found"),
		})
		got := regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAllString(log.String(), `"seconds":0`)
		if got != loggedRequest {
			t.Errorf("logged\n%swant\n%s", got, loggedRequest)
		}
	}
}

// An entry of the log has no character that a terminal obeys or does not show. Its JSON means the same text.
func TestLogIsHarmless(t *testing.T) {
	const hostile = "a\x1b]0;x\a\x7f\u0085\u009b31m\u202eb\u2066\u200b\u2028\ufeff\U000e0001\u00e9\U0001f600"
	config := zapcore.EncoderConfig{MessageKey: "message"}
	for name, field := range map[string]zapcore.Field{
		"request": zap.Inline(&line{&Event{Principal: hostile, Groups: []string{hostile}, Err: errors.New(hostile)},
			&http.Request{Method: hostile, URL: &url.URL{Path: hostile}, Header: http.Header{"User-Agent": {hostile}}}, 0}),
		"other": zap.Error(errors.New(hostile)),
	} {
		b, err := LogEncoder(config).EncodeEntry(zapcore.Entry{Message: hostile}, []zapcore.Field{field})
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsFunc(strings.TrimSuffix(b.String(), "\n"), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: logged %q", name, b)
		}
		var got struct{ Message, Error, Path, Method string }
		if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Message != hostile || got.Error != hostile || name == "request" && got.Path != hostile {
			t.Errorf("%s: %q means %q (%v)", name, b, got, err)
		}
	}
}

// The entry of a request equals zap's, in every log, except for characters that are not shown.
func FuzzLogEncoder(f *testing.F) {
	f.Add("registry", "GET", "/a path\x00\x1f\x7f\u2028", "agent \"1\" \\ \r\n\t <&> \xff\xc3", "group", int64(7), 1.5e-9)
	f.Add("", "", "é😀\ufffd\xed\xa0\x80", "", "", int64(-1), 1e300)
	f.Fuzz(func(t *testing.T, host, method, path, agent, group string, number int64, seconds float64) {
		config := zap.NewProductionEncoderConfig()
		config.EncodeTime = zapcore.RFC3339NanoTimeEncoder
		r := &http.Request{Method: method, URL: &url.URL{Path: path}, Header: http.Header{"User-Agent": {agent}}}
		l := &line{&Event{Module: modproxy.Address{Host: host}, Bytes: number, Client: agent}, r, time.Duration(seconds * float64(time.Second))}
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
			end := texts[0][strings.LastIndexByte(texts[0], '}')+1:]
			want := string(clean.JSON([]byte(strings.TrimSuffix(texts[0], end)))) + end
			if texts[1] != want {
				t.Errorf("%s\nwant\n%s", texts[1], want)
			}
		}
	})
}

// insider is an error with a part that clients do not receive.
type insider struct{ error }

func (insider) Inside() string { return "lookup up.example on 192.0.2.53:53: no such host" }

// The log has the part of an error that clients do not receive, once.
func TestLogHasTheInside(t *testing.T) {
	network := fmt.Errorf("package: %w", insider{errors.New("lookup up.example: no such host")})
	full := &modproxy.NoSpace{Err: errors.New("everything is pinned")} // its text has all of it
	for want, err := range map[string]error{
		"package: lookup up.example: no such host (lookup up.example on 192.0.2.53:53: no such host)": network,
		"no space: everything is pinned": full,
	} {
		var log bytes.Buffer
		config := zapcore.EncoderConfig{MessageKey: "message"}
		p := &Responder{Log: zap.New(zapcore.NewCore(LogEncoder(config), zapcore.AddSync(&log), zapcore.InfoLevel))}
		p.record(httptest.NewRequest("GET", "/path", nil), &Event{Err: err})
		var got struct{ Error string }
		if err := json.Unmarshal(log.Bytes(), &got); err != nil || got.Error != want {
			t.Errorf("logged %s, want %s", &log, want)
		}
		if told := (message{what: oneLine(err.Error())}).within(maxText); strings.Contains(told, "192.0.2.53") {
			t.Errorf("clients are told %s", told)
		}
	}
}
