package auth_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/auth"
)

// BenchmarkVerify: a valid token, one with a wrong secret, and one that does not exist. The latter two must take the same time.
func BenchmarkVerify(b *testing.B) {
	tokens := open(b, filepath.Join(b.TempDir(), "tokens.json"))
	text, _ := create(b, tokens, auth.Token{Name: "ci", Scopes: acme})
	for name, text := range map[string]string{
		"good":         text,
		"wrong secret": text[:20] + strings.Repeat("a", 52),
		"unknown id":   "mp_" + strings.Repeat("a", 16) + text[19:],
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tokens.Verify(text, time.Now())
			}
		})
	}
}

func BenchmarkIdentify(b *testing.B) {
	tokens := open(b, filepath.Join(b.TempDir(), "tokens.json"))
	text, _ := create(b, tokens, auth.Token{Name: "ci", Scopes: acme})
	a := &auth.Authenticator{Tokens: tokens}
	for name, value := range map[string]string{"bearer": "Bearer " + text, "basic": basic("a:" + text)} {
		header := http.Header{"Authorization": {value}}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Identify(b.Context(), header, time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	s := newSigned(b, auth.SignerConfig{})
	b.ReportAllocs()
	for b.Loop() {
		s.sign(b)
	}
}

func BenchmarkRedeem(b *testing.B) {
	s := newSigned(b, auth.SignerConfig{})
	segment := s.sign(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.signer.Redeem(segment, vpcPath, vpc, s.now); err != nil {
			b.Fatal(err)
		}
	}
}
