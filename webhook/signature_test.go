package webhook

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

const secret = "a secret of the operator"

// signingToken is a signing token of GitLab, and signingKey its key.
const (
	signingKey   = "0123456789abcdef0123456789abcdef"
	signingToken = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
)

func hexSum(secret, body string) string {
	return hex.EncodeToString(hmac256([]byte(secret), []byte(body)))
}

// standardSum is the signature of Standard Webhooks for the ID 7 and the time 1700000000.
func standardSum(body string) string {
	return "v1," + base64.StdEncoding.EncodeToString(hmac256([]byte(signingKey), []byte("7.1700000000."+body)))
}

// sendersOf returns the headers with which each forge signs body.
func sendersOf(body string) map[string]struct {
	secret string
	header []string
} {
	sum := hexSum(secret, body)
	return map[string]struct {
		secret string
		header []string
	}{
		"GitHub":               {secret, []string{"X-Hub-Signature", "sha1=0123456789012345678901234567890123456789", "X-Hub-Signature-256", "sha256=" + sum}},
		"GitLab secret token":  {secret, []string{"X-Gitlab-Token", secret}},
		"GitLab signing token": {signingToken, []string{"webhook-id", "7", "webhook-timestamp", "1700000000", "webhook-signature", standardSum(body)}},
		"GitLab, two keys": {signingToken, []string{"webhook-id", "7", "webhook-timestamp", "1700000000",
			"webhook-signature", "v1,AAAA v1a,x " + standardSum(body)}},
		"Gitea":     {secret, []string{"X-Gitea-Signature", sum, "X-Gogs-Signature", sum}},
		"Bitbucket": {secret, []string{"X-Hub-Signature", "sha256=" + sum}},
	}
}

func headerOf(pairs []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// TestSignatureOfGitHub has the example in GitHub's page about validating webhook deliveries.
func TestSignatureOfGitHub(t *testing.T) {
	h := headerOf([]string{"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"})
	if !signed(h, []byte("Hello, World!"), "It's a Secret to Everybody") {
		t.Error("refused")
	}
}

func TestSigned(t *testing.T) {
	const body = `{"repository": {}}`
	for name, s := range sendersOf(body) {
		h := headerOf(s.header)
		if !signed(h, []byte(body), s.secret) {
			t.Errorf("%s: refused", name)
		}
		if signed(h, []byte(body), s.secret+"x") || signed(h, []byte(body), "") {
			t.Errorf("%s: accepted with another secret", name)
		}
		if _, coversBody := h["X-Gitlab-Token"]; !coversBody && (signed(h, []byte(body+" "), s.secret) || signed(h, nil, s.secret)) {
			t.Errorf("%s: accepted with another body", name)
		}
		for field, values := range h {
			cut := h.Clone()
			cut.Set(field, strings.TrimSuffix(values[0], values[0][len(values[0])-1:]))
			if field != "X-Gogs-Signature" && !(name == "GitHub" && field == "X-Hub-Signature") && signed(cut, []byte(body), s.secret) {
				t.Errorf("%s: accepted with a shorter %s", name, field)
			}
		}
	}
	for name, header := range map[string][]string{
		"nothing":              nil,
		"empty headers":        {"X-Hub-Signature-256", "", "X-Gitlab-Token", "", "webhook-signature", ""},
		"no sum":               {"X-Hub-Signature-256", "sha256="},
		"SHA-1":                {"X-Hub-Signature", "sha1=" + hexSum(secret, body)},
		"not hexadecimal":      {"X-Hub-Signature-256", "sha256=xyz"},
		"the secret as a sum":  {"X-Hub-Signature-256", secret},
		"an empty key":         {"webhook-signature", "v1," + base64.StdEncoding.EncodeToString(hmac256(nil, []byte(".."+body)))},
		"the header of others": {"Authorization", "Bearer " + secret},
	} {
		for _, s := range []string{secret, signingToken, "whsec_", "whsec_?"} {
			if signed(headerOf(header), []byte(body), s) {
				t.Errorf("%s: accepted with %q", name, s)
			}
		}
	}
}

// FuzzSigned: no text in the headers is a signature for a secret that its author does not know.
func FuzzSigned(f *testing.F) {
	for _, s := range sendersOf("{}") {
		for i := 0; i < len(s.header); i += 2 {
			f.Add(s.header[i], s.header[i+1], []byte("[]"))
		}
	}
	const unknown, unknownToken = "another secret", "whsec_eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg="
	f.Fuzz(func(t *testing.T, field, value string, body []byte) {
		h := http.Header{http.CanonicalHeaderKey(field): {value}}
		if value != unknown && signed(h, body, unknown) || value != unknownToken && signed(h, body, unknownToken) {
			t.Errorf("%s: %q", field, value)
		}
	})
}
