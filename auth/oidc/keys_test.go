package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth/oidc"
)

// TestUnknownKeysDoNotHammerTheIssuer: tokens with unknown keys cause at most one request to the issuer every ten seconds.
func TestUnknownKeysDoNotHammerTheIssuer(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	v := p.verifier(t)
	now := time.Now()
	flood := func(at time.Time) {
		var all sync.WaitGroup
		for i := range 50 {
			token := sign(t, "ES256", fmt.Sprint("kid", i), ecKey, p.claims(now, nil))
			all.Go(func() {
				if _, err := v.Verify(t.Context(), token, at); !errors.Is(err, modproxy.ErrUnauthorized) {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	flood(now)
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	flood(now.Add(9 * time.Second))
	flood(now.Add(11 * time.Second))
	if n := p.asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	next := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	p.publish(published("ec", ecKey), published("next", next))
	token := sign(t, "ES256", "next", next, p.claims(now, nil))
	if _, err := v.Verify(t.Context(), token, now.Add(12*time.Second)); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Error(err)
	}
	if _, err := v.Verify(t.Context(), token, now.Add(22*time.Second)); err != nil {
		t.Errorf("a new key: %v (%s)", err, why(err))
	}
}

func TestIssuerDown(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	v := p.verifier(t)
	now := time.Now()
	good := func(at time.Time) error {
		_, err := v.Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(at, nil)), at)
		return err
	}
	if err := good(now); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for _, after := range []time.Duration{time.Minute, 31 * time.Minute, 32 * time.Minute, 58 * time.Minute} {
		if err := good(now.Add(after)); err != nil {
			t.Errorf("%v after: %v", after, err)
		}
	}
	for _, after := range []time.Duration{time.Hour, time.Hour + time.Second, 48 * time.Hour} { // one of the keys may have been withdrawn
		if err := good(now.Add(after)); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("%v after: %v", after, err)
		}
	}
	unknown := sign(t, "ES256", "new", ecKey, p.claims(now, nil))
	if _, err := v.Verify(t.Context(), unknown, now); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("a key that could not be asked for: %v", err)
	}
	if _, err := p.verifier(t).Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(now, nil)), now); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("no key was ever known: %v", err)
	}
}

// TestWithdrawnKey: a withdrawn key is accepted for at most an hour.
func TestWithdrawnKey(t *testing.T) {
	p := newProvider(t, published("ec", ecKey), published("rsa", rsaKey))
	v := p.verifier(t)
	now := time.Now()
	token := sign(t, "ES256", "ec", ecKey, p.claims(now, map[string]any{"exp": now.Add(2 * time.Hour).Unix()}))
	check := func(at time.Time) error {
		_, err := v.Verify(t.Context(), token, at)
		return err
	}
	if err := check(now); err != nil {
		t.Fatal(err)
	}
	p.publish(published("rsa", rsaKey))
	if err := check(now.Add(59 * time.Minute)); err != nil {
		t.Error(err)
	}
	if err := check(now.Add(61 * time.Minute)); !errors.Is(err, modproxy.ErrUnauthorized) {
		t.Errorf("after an hour: %v", err)
	}
}

// TestAllKeysWithdrawn: an issuer that publishes no signing key has withdrawn all keys.
func TestAllKeysWithdrawn(t *testing.T) {
	encrypts := published("ec", ecKey)
	encrypts.Use = "enc"
	for name, left := range map[string][]jose.JSONWebKey{"none": {}, "another use": {encrypts}} {
		p := newProvider(t, published("ec", ecKey))
		v := p.verifier(t)
		now := time.Now()
		check := func(at time.Time) error {
			_, err := v.Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(at, nil)), at)
			return err
		}
		if err := check(now); err != nil {
			t.Fatal(err)
		}
		p.publish(left...)
		for _, after := range []time.Duration{time.Hour, 3 * time.Hour} {
			if err := check(now.Add(after)); !errors.Is(err, modproxy.ErrUnauthorized) {
				t.Errorf("%s: %v after: %v", name, after, err)
			}
		}
		p.publish(published("ec", ecKey))
		if err := check(now.Add(4 * time.Hour)); err != nil {
			t.Errorf("%s: published again: %v", name, err)
		}
	}
}

// TestSlowIssuer: the wait for an issuer that does not answer ends with the request.
func TestSlowIssuer(t *testing.T) {
	p := newProvider(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	p.handle("/keys", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published("ec", ecKey)}})
	})
	v := p.verifier(t)
	now := time.Now()
	token := sign(t, "ES256", "ec", ecKey, p.claims(now, nil))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := v.Verify(ctx, token, now); !errors.Is(err, modproxy.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	if _, err := v.Verify(t.Context(), token, now); err != nil { // joins the fetch that the first call began
		t.Error(err, why(err))
	}
}

func TestIssuerMisbehaves(t *testing.T) {
	small := must(rsa.GenerateKey(rand.Reader, 2048))
	large := strings.Repeat(" ", 1<<20)
	for name, c := range map[string]func(p *provider, elsewhere string){
		"another's document": func(p *provider, _ string) {
			p.answer("/.well-known/openid-configuration", map[string]string{"issuer": "https://x.example", "jwks_uri": p.URL + "/keys"})
		},
		"keys over http": func(p *provider, _ string) {
			p.answer("/.well-known/openid-configuration", map[string]string{"issuer": p.URL, "jwks_uri": "http" + strings.TrimPrefix(p.URL, "https") + "/keys"})
		},
		"no keys' URL": func(p *provider, _ string) {
			p.answer("/.well-known/openid-configuration", map[string]string{"issuer": p.URL})
		},
		"redirected": func(p *provider, elsewhere string) {
			p.handle("/keys", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere, http.StatusFound) })
		},
		"an error with keys": func(p *provider, _ string) {
			p.handle("/keys", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published("ec", ecKey)}})
			})
		},
		"nobody there": func(p *provider, _ string) {
			p.answer("/.well-known/openid-configuration", map[string]string{"issuer": p.URL, "jwks_uri": "https://127.0.0.1:1/keys?key=SECRET"})
		},
		"too long": func(p *provider, _ string) {
			p.handle("/keys", func(w http.ResponseWriter, _ *http.Request) {
				json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{published("ec", ecKey)}})
				w.Write([]byte(large))
			})
		},
		"too many": func(p *provider, _ string) {
			keys := make([]jose.JSONWebKey, 51)
			for i := range keys {
				keys[i] = published("ec", ecKey)
			}
			p.publish(keys...)
		},
		"no JSON":           func(p *provider, _ string) { p.answer("/keys", "text") },
		"none":              func(p *provider, _ string) { p.publish() },
		"for encryption":    func(p *provider, _ string) { k := published("ec", ecKey); k.Use = "enc"; p.publish(k) },
		"a secret":          func(p *provider, _ string) { p.publish(jose.JSONWebKey{KeyID: "ec", Key: []byte("secret")}) },
		"a private key":     func(p *provider, _ string) { p.publish(jose.JSONWebKey{KeyID: "ec", Key: small}) },
		"another algorithm": func(p *provider, _ string) { k := published("ec", ecKey); k.Algorithm = "ES384"; p.publish(k) },
	} {
		p := newProvider(t, published("ec", ecKey))
		p.handle("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
			t.Errorf("%s: the redirect was followed", name)
		})
		c(p, p.URL+"/elsewhere")
		told := make(chan error, 1)
		v, err := oidc.New(oidc.Config{
			Issuers: []oidc.Issuer{p.issuer()}, Transport: p.Client().Transport,
			Observe: func(_ string, err error) { told <- err },
		})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		_, err = v.Verify(t.Context(), sign(t, "ES256", "ec", ecKey, p.claims(now, nil)), now)
		if err == nil {
			t.Errorf("%s: let in", name)
		}
		if err := <-told; (err == nil) != (name == "another algorithm") || strings.Contains(fmt.Sprint(err), "SECRET") {
			t.Errorf("%s: told %v", name, err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestPanic: a panic during a request to an issuer counts as a failed attempt. The error does not contain the value of the
// panic, and waiting requests receive an answer.
func TestPanic(t *testing.T) {
	p := newProvider(t, published("ec", ecKey))
	told := make(chan error, 2)
	broken := true
	v, err := oidc.New(oidc.Config{
		Issuers: []oidc.Issuer{p.issuer()},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if broken {
				panic("SECRET")
			}
			return p.Client().Transport.RoundTrip(r)
		}),
		Observe: func(_ string, err error) { told <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	token := sign(t, "ES256", "ec", ecKey, p.claims(now, nil))
	if _, err := v.Verify(t.Context(), token, now); !errors.Is(err, modproxy.ErrUnavailable) || strings.Contains(err.Error(), "fault") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	if err := <-told; err == nil || !strings.Contains(err.Error(), "string at keys_test.go:") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("told %v", err)
	}
	broken = false
	if _, err := v.Verify(t.Context(), token, now.Add(time.Minute)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := <-told; err != nil {
		t.Errorf("told %v afterwards", err)
	}
}
