package proxy_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
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

// never is a registry whose downloads do not end.
type never struct{ modproxy.Registry }

func (never) Package(ctx context.Context, _ modproxy.Ref) (*modproxy.Package, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// asking serves packages of reg to clients with one of two tokens. The second token expires after ten seconds.
func asking(t *testing.T, reg modproxy.Registry) (p pipes, tokens *auth.Tokens, one, brief string, log *bytes.Buffer) {
	tokens, err := auth.OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
	if err != nil {
		t.Fatal(err)
	}
	one, _, err = tokens.Create(t.Context(), auth.Token{Name: "one", Scopes: []auth.Scope{auth.Everything}})
	if err != nil {
		t.Fatal(err)
	}
	brief, _, err = tokens.Create(t.Context(), auth.Token{Name: "brief", Scopes: []auth.Scope{auth.Everything}, Expires: time.Now().Add(10 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	log = &bytes.Buffer{}
	h := newHandler(t, func(c *proxy.Config, _ *scripted) {
		c.Registry = reg
		c.Auth = &auth.Authenticator{Tokens: tokens}
		c.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(log), zapcore.InfoLevel))
	})
	p = newPipes()
	server := &http.Server{Handler: h}
	go server.Serve(p)
	t.Cleanup(func() { server.Close() })
	return p, tokens, one, brief, log
}

// A package is cut off while it is sent within five seconds after its token is revoked or expires, and not before.
func TestSendingEndsWithTheToken(t *testing.T) {
	for _, revoke := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p, tokens, token, brief, log := asking(t, filed{dir: t.TempDir()})
			if !revoke {
				token = brief
			}
			c := p.dial()
			answer, err := askAs(t, c, archive, token)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatal(answer, err)
			}
			time.Sleep(9 * time.Second)
			if _, err := io.CopyN(io.Discard, answer.Body, 100<<10); err != nil {
				t.Fatalf("cut off before the token ended: %v", err)
			}
			if revoke {
				if _, err := tokens.Revoke(t.Context(), "one"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
			if _, err := io.Copy(io.Discard, answer.Body); err == nil {
				t.Error("all of it was there")
			}
			synctest.Wait()
			if !strings.Contains(log.String(), "was revoked") && !strings.Contains(log.String(), "has expired") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// A request that waits for its package ends when its token is revoked.
func TestWaitingEndsWithTheToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tokens, token, _, _ := asking(t, never{})
		c := p.dial()
		time.AfterFunc(time.Minute, func() { tokens.Revoke(t.Context(), "one") })
		start := time.Now()
		answer, err := askAs(t, c, archive, token)
		if took := time.Since(start); err != nil || answer.StatusCode != http.StatusUnauthorized || took < time.Minute || took > time.Minute+5*time.Second {
			t.Errorf("%v, %v after %v", answer, err, took)
		}
	})
}

// The end of a request by its token leaves the connection to the next request.
func TestEndOfATokenIsNotThatOfTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, tokens, token, _, _ := asking(t, large{})
		c := p.dial()
		for range 3 {
			answer, err := askAs(t, c, archive, token)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, answer.Body); n != 1<<20 || err != nil {
				t.Errorf("%d bytes, %v", n, err)
			}
			time.Sleep(5 * time.Second)
		}
		if _, err := tokens.Revoke(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if answer, err := askAs(t, c, archive, token); err != nil || answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("%v, %v", answer, err)
		}
	})
}

// The token of an issuer identifies a client until it expires.
func TestEndOfAnIssuersToken(t *testing.T) {
	now := time.Now()
	a := &auth.Authenticator{}
	for until, want := range map[time.Duration]bool{-2 * time.Minute: false, time.Minute: true} {
		p := auth.Principal{Kind: auth.ByIssuer, ID: "x", Until: now.Add(until)}
		if err := a.Still(p, now); (err == nil) != want {
			t.Errorf("%v: %v", until, err)
		}
	}
	if err := a.Still(auth.Principal{}, now); err != nil {
		t.Error(err)
	}
}
