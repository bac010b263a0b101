package app

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"

	"github.com/modproxy/modproxy/auth"
	"github.com/modproxy/modproxy/config"
)

// Profiles and the log level are for the owner of the data directory, by the socket. An operator with a token has no access to them.
func TestOnlyByTheSocket(t *testing.T) {
	c := config.Default()
	c.Data, c.Listen, c.Offline = filepath.Join(t.TempDir(), "data"), "127.0.0.1:0", true
	a, err := New(t.Context(), c, Options{Log: io.Discard})
	must(t, err)
	must(t, auth.MakeDir(filepath.Dir(c.TokensFile())))
	tokens, err := auth.OpenTokens(c.TokensFile())
	must(t, err)
	token, _, err := tokens.Create(t.Context(), auth.Token{Name: "ops", Admin: true, Scopes: []auth.Scope{auth.Everything}})
	must(t, err)
	ctx, end := context.WithCancelCause(t.Context())
	served := make(chan error)
	go func() { served <- a.Serve(ctx, nil) }()
	socket := filepath.Join(c.Data, "modproxy.sock")
	info, err := os.Stat(socket)
	must(t, err)
	if mode := info.Mode(); mode.Perm()&0o077 != 0 {
		t.Errorf("the mode of the socket is %v", mode)
	}
	owner := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	call := func(client *http.Client, base, method, path, body, token string) (status int, answer []byte) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := client.Do(r)
		must(t, err)
		defer res.Body.Close()
		answer, err = io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, answer
	}
	const level = `{"level":"debug"}`
	for _, r := range []struct{ method, path, body string }{
		{"GET", "/-/debug/pprof/", ""},
		{"GET", "/-/debug/pprof/heap", ""},
		{"GET", "/-/debug/pprof/profile?seconds=1", ""},
		{"GET", "/-/debug/pprof/trace?seconds=1", ""},
		{"GET", "/-/api/log-level", ""},
		{"POST", "/-/api/log-level/set", level},
	} {
		if status, answer := call(http.DefaultClient, a.URL(), r.method, r.path, r.body, token); status != http.StatusNotFound {
			t.Errorf("%s with an operator's token: %d %s", r.path, status, answer)
		}
		if status, answer := call(http.DefaultClient, a.URL(), r.method, r.path, r.body, ""); status != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d %s", r.path, status, answer)
		}
		if a.logLevel.Level() != zapcore.InfoLevel {
			t.Errorf("%s has changed the log level", r.path)
		}
		if status, answer := call(owner, "http://localhost", r.method, r.path, r.body, ""); status != http.StatusOK || len(answer) == 0 {
			t.Errorf("%s by the socket: %d %s", r.path, status, answer)
		}
	}
	if a.logLevel.Level() != zapcore.DebugLevel {
		t.Errorf("the log level is %v", a.logLevel)
	}
	if _, answer := call(owner, "http://localhost", "GET", "/-/debug/pprof/heap", "", ""); !bytes.HasPrefix(answer, []byte("\x1f\x8b")) {
		t.Errorf("no profile: %.100q", answer)
	}
	if status, _ := call(owner, "http://localhost", "POST", "/-/api/log-level/set", `{"level":"loud"}`, ""); status != http.StatusBadRequest {
		t.Errorf("another level: %d", status)
	}
	end(nil)
	must(t, <-served)
	must(t, a.Close())
}
