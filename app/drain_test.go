package app

import (
	"bytes"
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/modproxy/modproxy/config"
)

// loggedStart is the log entry of a start. Programs read these names.
const loggedStart = `"message":"started","version":"V","listen":"http://127.0.0.1:8080","data":"modproxy-data","config":"modproxy.yaml","offline":false,"auth":false}`

func TestLoggedStart(t *testing.T) {
	var out bytes.Buffer
	log, _, flush := newLog(&out, "info")
	c := config.Default()
	a := &App{parts: parts{log: log, config: c, options: Options{ConfigFile: "modproxy.yaml"}}, url: "http://127.0.0.1:8080"}
	a.logStarted()
	flush()
	got := regexp.MustCompile(`"version":"[^"]*"`).ReplaceAllString(strings.TrimSpace(out.String()), `"version":"V"`)
	if !strings.HasSuffix(got, loggedStart) {
		t.Errorf("logged\n%s\nwant\n%s", got, loggedStart)
	}
}

func TestSignalOf(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("terminated signal received"))
	if got := signalOf(ctx); got != "terminated" {
		t.Errorf("%q", got)
	}
}

type at struct {
	net.Listener
	addr net.Addr
}

func (a at) Addr() net.Addr { return a.addr }

func TestTokensUnprotected(t *testing.T) {
	anywhere, here := &net.TCPAddr{IP: net.IPv4zero}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	for name, c := range map[string]struct {
		at     net.Addr
		change func(*config.Config)
		want   bool
	}{
		"plain":        {anywhere, func(c *config.Config) {}, true},
		"loopback":     {here, func(c *config.Config) {}, false},
		"TLS":          {anywhere, func(c *config.Config) { c.TLS.CertFile = "cert.pem" }, false},
		"TLS in front": {anywhere, func(c *config.Config) { c.PublicURL = "https://modules.example.com" }, false},
		"anonymous":    {anywhere, func(c *config.Config) { c.Auth.Required, c.Anonymous.All = false, true }, false},
	} {
		config := config.Default()
		config.Auth.Required = true
		c.change(config)
		if got := (&App{parts: parts{config: config}, listener: at{addr: c.at}}).TokensUnprotected(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
