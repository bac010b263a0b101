//go:build linux

package hostile_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// An issuer is an identity provider of the world with its own keys.
type issuer struct {
	host string

	mu    sync.Mutex
	keys  map[string]crypto.Signer // published keys, by id
	asked int                      // number of requests for keys
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{keys: map[string]crypto.Signer{"ec": newEC(t), "rsa": newRSA(t)}}
	i.host = stranger(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			json.NewEncoder(w).Encode(map[string]string{"issuer": i.url(), "jwks_uri": i.url() + "/keys"})
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		i.asked++
		var published []map[string]string
		for id, key := range i.keys {
			published = append(published, jwk(id, key))
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": published})
	}))
	return i
}

func (i *issuer) url() string { return "https://" + i.host }

// publish replaces a key; nil removes it.
func (i *issuer) publish(id string, key crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.keys, id)
	if key != nil {
		i.keys[id] = key
	}
}

func (i *issuer) key(id string) crypto.Signer {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[id]
}

func (i *issuer) questions() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

func newEC(t *testing.T) crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newRSA(t *testing.T) crypto.Signer {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func base64URL(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk is a public key (RFC 7517, RFC 7518 section 6).
func jwk(id string, key crypto.Signer) map[string]string {
	switch k := key.Public().(type) {
	case *rsa.PublicKey:
		return map[string]string{"kid": id, "use": "sig", "kty": "RSA", "n": base64URL(k.N.Bytes()), "e": base64URL(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := k.Bytes() // 4, x, y
		return map[string]string{"kid": id, "use": "sig", "kty": "EC", "crv": "P-256", "x": base64URL(point[1:33]), "y": base64URL(point[33:])}
	}
	panic("another kind of key")
}

// job returns the claims of a job that may read the modules of corp, with changes.
func (i *issuer) job(changes map[string]any) map[string]any {
	claims := map[string]any{"iss": i.url(), "aud": "modproxy", "sub": "job", "project": "corp/infra", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, changes)
	for name, value := range claims {
		if value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// unsigned is a token without its signature.
func unsigned(header map[string]string, claims map[string]any) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	return base64URL(h) + "." + base64URL(c)
}

// token signs with ES256 or RS256, depending on the key.
func (i *issuer) token(id string, key crypto.Signer, claims map[string]any) string {
	algorithm := "ES256"
	if _, ok := key.(*rsa.PrivateKey); ok {
		algorithm = "RS256"
	}
	text := unsigned(map[string]string{"alg": algorithm, "kid": id, "typ": "JWT"}, claims)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch k := key.(type) {
	case *rsa.PrivateKey:
		signature, _ = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, s, _ := ecdsa.Sign(rand.Reader, k, sum[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	return text + "." + base64URL(signature)
}

// hs256 signs with a secret, such as the public key of the issuer, which everybody knows.
func hs256(claims map[string]any, secret []byte) string {
	text := unsigned(map[string]string{"alg": "HS256", "kid": "rsa", "typ": "JWT"}, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(text))
	return text + "." + base64URL(mac.Sum(nil))
}

const withIssuer = ordinary + `auth:
  required: true
  issuers:
    - url: https://ISSUER
      audience: modproxy
      groups: [{name: infra, match: ["project=corp/infra"], scopes: [corp.test/corp]}]
`

// A token identifies a job only if the right issuer signed it, for modproxy, and it has not expired.
func TestIssuersAreNotImpersonated(t *testing.T) {
	i, other := newIssuer(t), newIssuer(t)
	p := startOwn(t, strings.Replace(withIssuer, "ISSUER", i.host, 1))
	ask := func(token string) rig.Answer {
		p.unwritten = append(p.unwritten, token)
		return p.ask(http.MethodGet, private.path("versions"), "Authorization", "Bearer "+token)
	}
	ec, rs := i.key("ec"), i.key("rsa")
	good := i.token("ec", ec, i.job(nil))
	for name, token := range map[string]string{"ES256": good, "RS256": i.token("rsa", rs, i.job(nil))} {
		if a := ask(token); a.Status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, a.Status, a.Said())
		}
	}
	p.run("refused", func(t *testing.T) {
		parts := strings.Split(good, ".")
		der, err := x509.MarshalPKIXPublicKey(rs.Public())
		if err != nil {
			t.Fatal(err)
		}
		block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
		published, _ := json.Marshal(jwk("rsa", rs))
		first := p.ask(http.MethodGet, private.path("versions"), "Authorization", "Bearer none")
		for name, token := range map[string]string{
			"another issuer":           other.token("ec", other.key("ec"), other.job(nil)),
			"another's key":            i.token("ec", other.key("ec"), i.job(nil)),
			"another's key, no id":     i.token("", other.key("ec"), i.job(nil)),
			"another's claim":          i.token("ec", ec, i.job(map[string]any{"iss": other.url()})),
			"issuer with a slash":      i.token("ec", ec, i.job(map[string]any{"iss": i.url() + "/"})),
			"another audience":         i.token("ec", ec, i.job(map[string]any{"aud": "modproxy2"})),
			"audiences of others":      i.token("ec", ec, i.job(map[string]any{"aud": []string{"a", i.url()}})),
			"no audience":              i.token("ec", ec, i.job(map[string]any{"aud": nil})),
			"no expiry":                i.token("ec", ec, i.job(map[string]any{"exp": nil})),
			"not yet":                  i.token("ec", ec, i.job(map[string]any{"nbf": time.Now().Add(5 * time.Minute).Unix()})),
			"none":                     unsigned(map[string]string{"alg": "none"}, i.job(nil)) + ".",
			"None, signed":             unsigned(map[string]string{"alg": "None", "kid": "ec"}, i.job(nil)) + "." + parts[2],
			"HS256 with the PEM":       hs256(i.job(nil), block),
			"HS256 with the DER":       hs256(i.job(nil), der),
			"HS256 with the modulus":   hs256(i.job(nil), rs.Public().(*rsa.PublicKey).N.Bytes()),
			"HS256 with the JSON":      hs256(i.job(nil), published),
			"HS256 with nothing":       hs256(i.job(nil), nil),
			"own key":                  ownKey(t, i),
			"claims exchanged":         parts[0] + "." + strings.Split(i.token("ec", ec, i.job(map[string]any{"sub": "x"})), ".")[1] + "." + parts[2],
			"signature missing":        parts[0] + "." + parts[1] + ".",
			"the key of another kind":  i.token("rsa", ec, i.job(nil)),
			"a key that there is none": i.token("new", ec, i.job(nil)),
		} {
			alike(t, name, ask(token), first)
		}
		expired := ask(i.token("ec", ec, i.job(map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()})))
		if expired.Status != http.StatusUnauthorized || !strings.Contains(expired.Said(), "expired") {
			t.Errorf("expired: %d %s", expired.Status, expired.Said())
		}
	})
	p.run("no-group", func(t *testing.T) {
		for name, changes := range map[string]map[string]any{
			"other": {"project": "corp/infra2"}, "list": {"project": []string{"corp/infra"}}, "none": {"project": nil}, "case": {"project": "Corp/Infra"},
		} {
			if a := ask(i.token("ec", ec, i.job(changes))); a.Status != http.StatusNotFound {
				t.Errorf("%s: %d", name, a.Status)
			}
		}
	})
	p.run("left-the-group", func(t *testing.T) { leftTheGroup(t, p, "Bearer "+good) })
	p.run("key-rotated", func(t *testing.T) { keyRotated(t, p, i, ask) })
	if n := len(world.strangers.at(other.host)); n > 0 {
		t.Errorf("an issuer that is not configured was asked %d times", n)
	}
}

// ownKey is a token that contains its own key and names a URL for it.
func ownKey(t *testing.T, i *issuer) string {
	key := newEC(t)
	h, _ := json.Marshal(map[string]any{"alg": "ES256", "jwk": jwk("own", key), "jku": "https://169.254.169.254/keys", "x5u": "https://169.254.169.254/x"})
	c, _ := json.Marshal(i.job(nil))
	text := base64URL(h) + "." + base64URL(c)
	sum := sha256.Sum256([]byte(text))
	r, s, _ := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), sum[:])
	return text + "." + base64URL(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// leftTheGroup: after the configuration has other groups, the token and its signed path are invalid.
func leftTheGroup(t *testing.T, p *proxy, shown string) {
	segment, path := p.signed(t, shown, private, "1.0.0")
	if a := p.ask(http.MethodGet, "/"+segment+path, "Authorization", ""); a.Status != http.StatusOK {
		t.Fatalf("%d %s", a.Status, a.Said())
	}
	file := filepath.Join(p.dir, "modproxy.yaml")
	config := p.config()
	restart := func(config string) {
		p.stop()
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		p.launch()
	}
	restart(strings.Replace(string(config), "project=corp/infra", "project=corp/others", 1))
	if a := p.ask(http.MethodGet, private.path("versions"), "Authorization", shown); a.Status != http.StatusNotFound {
		t.Errorf("the token: %d", a.Status)
	}
	if a := p.ask(http.MethodGet, "/"+segment+path, "Authorization", ""); a.Status != http.StatusUnauthorized {
		t.Errorf("the signed path: %d", a.Status)
	}
	restart(string(config))
	for what, a := range map[string]rig.Answer{
		"token": p.ask(http.MethodGet, private.path("versions"), "Authorization", shown), "signed path": p.ask(http.MethodGet, "/"+segment+path, "Authorization", ""),
	} {
		if a.Status != http.StatusOK {
			t.Errorf("back in the group, the %s: %d", what, a.Status)
		}
	}
}

// keyRotated: a new key counts after the pause between requests to the issuer, and the removed key then does not. Tokens with unknown keys
// do not cause more requests.
func keyRotated(t *testing.T, p *proxy, i *issuer, ask func(string) rig.Answer) {
	old, next := i.key("ec"), newEC(t)
	if a := ask(i.token("ec", old, i.job(nil))); a.Status != http.StatusOK {
		t.Fatalf("before: %d", a.Status)
	}
	i.publish("ec", nil)
	i.publish("next", next)
	patience, status := 20*time.Second, 0
	few := shorter(t, "no waiting until a new key counts, which takes 10s")
	if few {
		patience = 500 * time.Millisecond
	}
	asked, started := i.questions(), time.Now()
	for n := 0; status != http.StatusOK && time.Since(started) < patience; n++ {
		status = ask(i.token("next", next, i.job(map[string]any{"jti": n}))).Status
		ask(i.token(fmt.Sprint("flood-", n), next, i.job(nil)))
		time.Sleep(50 * time.Millisecond)
	}
	if n := i.questions() - asked; n > 2 {
		t.Errorf("the issuer was asked for its keys %d times", n)
	}
	if few {
		return
	}
	t.Logf("the new key counted after %v", time.Since(started))
	if status != http.StatusOK {
		t.Errorf("the new key does not count after %v: %d", time.Since(started), status)
	}
	if a := ask(i.token("ec", old, i.job(map[string]any{"jti": "old"}))); a.Status != http.StatusUnauthorized {
		t.Errorf("the key that was taken back: %d", a.Status)
	}
}
