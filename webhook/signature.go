package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"
)

// signed reports whether the sender of an event knows the secret. Each forge has its own header, and some send several. One valid header
// is enough, because each proves the same. Times in signatures do not count: a repeated event is harmless.
func signed(h http.Header, body []byte, secret string) bool {
	sum := hmac256([]byte(secret), body)
	return isHex(strings.TrimPrefix(h.Get("X-Hub-Signature-256"), "sha256="), sum) || // GitHub, Gitea, Forgejo
		isHex(strings.TrimPrefix(h.Get("X-Hub-Signature"), "sha256="), sum) || // Bitbucket; a GitHub has SHA-1 here
		isHex(h.Get("X-Gitea-Signature"), sum) ||
		isStandard(h, body, secret) ||
		isToken(h.Get("X-Gitlab-Token"), secret)
}

func hmac256(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

func isHex(text string, sum []byte) bool {
	given, err := hex.DecodeString(text)
	return err == nil && hmac.Equal(given, sum)
}

// isToken compares the secret token of GitLab, which is sent as it is.
func isToken(text, secret string) bool {
	given, want := sha256.Sum256([]byte(text)), sha256.Sum256([]byte(secret)) // so that the time does not depend on the length
	return text != "" && subtle.ConstantTimeCompare(given[:], want[:]) == 1
}

// isStandard verifies the signature for the signing token of GitLab, which is that of https://www.standardwebhooks.com: the token is
// whsec_ and the key in base64. The header may have several signatures, for the time in which a key is replaced.
func isStandard(h http.Header, body []byte, secret string) bool {
	encoded, isSigningToken := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !isSigningToken || err != nil || len(key) == 0 {
		return false
	}
	sum := hmac256(key, []byte(h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."), body)
	for text := range strings.FieldsSeq(h.Get("webhook-signature")) {
		version, encoded, _ := strings.Cut(text, ",")
		if given, err := base64.StdEncoding.DecodeString(encoded); version == "v1" && err == nil && hmac.Equal(given, sum) {
			return true
		}
	}
	return false
}
