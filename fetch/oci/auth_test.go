package oci_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/test/registrytest"
)

const (
	user, password = "reader", "correct-horse"
	htpasswd       = user + ":$2a$04$SEwZfyqe7DNikPqPU2fdLee6JGV.dNuZQz81pbTikYfXXsp1S74ky\n" // by bcrypt
)

// stocked returns a directory in which a registry has stored corp/vpc 1.0.0.
func stocked(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	registry := start(t, dir, "")
	push(t, registry, "corp/vpc", "1.0.0", zipped(t, "main.tf", ""))
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// authorizations returns the Authorization headers that s received.
func (s *site) authorizations() (all []string) {
	for _, r := range s.sent() {
		all = append(all, r.Header.Get("Authorization"))
	}
	return all
}

// withHtpasswd returns a registry on dir that wants Basic authentication.
func withHtpasswd(t *testing.T, dir, more string) *registrytest.OCIRegistry {
	t.Helper()
	file := filepath.Join(dir, "htpasswd")
	if err := os.WriteFile(file, []byte(htpasswd), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, dir, fmt.Sprintf("auth: {htpasswd: {realm: test, path: %q}}\n%s", file, more))
}

func TestBasic(t *testing.T) {
	s := front(t, withHtpasswd(t, stocked(t), ""))
	other := newSite(t, http.NotFound)
	at := "oci://" + s.host + "/corp/vpc?tag=1.0.0"
	right := fetch.Credential{Host: s.host, Username: user, Password: egress.NewSecret(password), Scope: namespace("corp")}
	wrong, elsewhere, scoped := right, right, right
	wrong.Password, elsewhere.Host = egress.NewSecret("incorrect-horse"), other.host
	scoped.Scope = namespace("other")
	for name, test := range map[string]struct {
		credential fetch.Credential
		says       string // part of the error; empty for none
		secret     bool   // the registry receives the password
	}{
		"right":                {right, "", true},
		"wrong":                {wrong, "check credentials[] for " + s.host, true},
		"none":                 {fetch.Credential{}, "set credentials[] for " + s.host, false},
		"of another host":      {elsewhere, "set credentials[] for " + s.host, false},
		"outside of its scope": {scoped, "set credentials[] for " + s.host, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.sent()
			_, err := get(t, newGetter(t, test.credential), at)
			checkDenied(t, err, test.says)
			sent := s.authorizations()
			if sent[0] != "" || slices.ContainsFunc(sent, func(a string) bool { return a != "" }) != test.secret {
				t.Errorf("the registry received %q", sent)
			}
		})
	}
	if len(other.sent()) > 0 {
		t.Error("the other host received a request")
	}
}

// namespace is a [fetch.Scope].
type namespace string

func (n namespace) Covers(m modproxy.Address) bool { return m.Namespace == string(n) }

// checkDenied checks that err is ErrDenied with a text, or nil if says is empty.
func checkDenied(t *testing.T, err error, says string) {
	t.Helper()
	if says == "" && err != nil || says != "" && (!errors.Is(err, modproxy.ErrDenied) || !strings.Contains(err.Error(), says)) {
		t.Errorf("error %v, want %q", err, says)
	}
	if err != nil && strings.Contains(err.Error(), "horse") {
		t.Errorf("the error has the password: %v", err)
	}
}

// tokens is a token service (https://distribution.github.io/distribution/spec/auth/token/).
type tokens struct {
	key  *ecdsa.PrivateKey
	file string // its public key, for registries
}

func newTokens(t *testing.T) *tokens {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "test"}}})
	if err != nil {
		t.Fatal(err)
	}
	s := &tokens{key, filepath.Join(t.TempDir(), "keys.json")}
	if err := os.WriteFile(s.file, keys, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// config returns the configuration of a registry whose tokens are at realm.
func (s *tokens) config(realm string) string {
	return fmt.Sprintf("auth: {token: {realm: %q, service: registry.test, issuer: tokens.test, jwks: %q}}\n", realm, s.file)
}

// ServeHTTP issues a token for one repository. Without the right password, it allows nothing.
func (s *tokens) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, sent, isBasic := r.BasicAuth()
	if isBasic && (name != user || sent != password) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	kind, rest, _ := strings.Cut(r.FormValue("scope"), ":")
	repository, action, _ := strings.Cut(rest, ":")
	access := []map[string]any{}
	if isBasic && kind == "repository" && action == "pull" {
		access = append(access, map[string]any{"type": kind, "name": repository, "actions": []string{"pull"}})
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: s.key}, (&jose.SignerOptions{}).WithHeader("kid", "test"))
	if err == nil {
		now := time.Now()
		claims := map[string]any{"iss": "tokens.test", "aud": r.FormValue("service"), "exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(), "access": access}
		var token string
		if token, err = jwt.Signed(signer).Claims(claims).Serialize(); err == nil {
			json.NewEncoder(w).Encode(map[string]string{"token": token})
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// A credential reaches a token service at another host only if the credential names it.
func TestToken(t *testing.T) {
	service := newTokens(t)
	tokens := newSite(t, service.ServeHTTP)
	s := front(t, start(t, stocked(t), service.config(tokens.URL+"/token?x=y")))
	right := fetch.Credential{Host: s.host, Username: user, Password: egress.NewSecret(password), TokenHost: tokens.host}
	wrong, unnamed, byHost := right, right, right
	wrong.Password, unnamed.TokenHost, byHost.Host, byHost.TokenHost = egress.NewSecret("incorrect-horse"), "", tokens.host, ""
	withheld := "the token service of " + s.host + " is at " + tokens.host + "; if it may have the credential, set token_host"
	for name, test := range map[string]struct {
		credential fetch.Credential
		says       string // part of the error; empty for none
		secret     bool   // the token service receives the password
	}{
		"right":                    {right, "", true},
		"wrong":                    {wrong, "check credentials[] for " + s.host, true},
		"without a token host":     {unnamed, withheld, false},
		"of the token host itself": {byHost, "set credentials[] for " + s.host, false},
		"none":                     {fetch.Credential{}, "set credentials[] for " + s.host, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.sent()
			tokens.sent()
			_, err := get(t, newGetter(t, test.credential), "oci://"+s.host+"/corp/vpc?tag=1.0.0")
			checkDenied(t, err, test.says)
			requests := tokens.sent()
			if len(requests) != 1 || requests[0].FormValue("service") != "registry.test" || requests[0].FormValue("x") != "y" ||
				requests[0].FormValue("scope") != "repository:corp/vpc:pull" {
				t.Fatalf("the token service received %d requests: %v", len(requests), requests[0].URL)
			}
			if _, _, hasPassword := requests[0].BasicAuth(); hasPassword != test.secret {
				t.Errorf("the token service received %q", requests[0].Header.Get("Authorization"))
			}
			for i, a := range s.authorizations() {
				if (i > 0) != strings.HasPrefix(a, "Bearer ") || i == 0 && a != "" {
					t.Errorf("request %d to the registry has %q", i, a)
				}
			}
		})
	}
}

// A token service at the registry's own origin receives its credential, as those of GitHub, Harbor and Azure do.
func TestTokenOfOwnOrigin(t *testing.T) {
	service := newTokens(t)
	s := newSite(t, nil)
	behind := front(t, start(t, stocked(t), service.config(s.URL+"/token")))
	s.handle = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			service.ServeHTTP(w, r)
			return
		}
		behind.handle(w, r)
	}
	g := newGetter(t, fetch.Credential{Host: s.host, Username: user, Password: egress.NewSecret(password)})
	if _, err := get(t, g, "oci://"+s.host+"/corp/vpc?tag=1.0.0"); err != nil {
		t.Fatal(err)
	}
	tags, err := g.Tags(t.Context(), source(t, "oci://"+s.host+"/corp/vpc"), "")
	if err != nil || len(tags) != 1 {
		t.Errorf("tags %v, error %v", tags, err)
	}
}

// A registry that names the token service of another registry gets no token for that one.
func TestTokenForAnotherRegistry(t *testing.T) {
	service := newTokens(t)
	tokens := newSite(t, service.ServeHTTP)
	evil := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token",service="registry.test",scope="repository:corp/vpc:pull"`)
		w.WriteHeader(http.StatusUnauthorized)
	})
	secret := egress.NewSecret(password)
	g := newGetter(t, fetch.Credential{Host: "registry.test", Username: user, Password: secret, TokenHost: tokens.host},
		fetch.Credential{Host: tokens.host, Username: user, Password: secret})
	_, err := get(t, g, "oci://"+evil.host+"/evil?tag=1")
	checkDenied(t, err, "set credentials[] for "+evil.host)
	if sent := tokens.authorizations(); len(sent) != 1 || sent[0] != "" {
		t.Errorf("the token service received %q", sent)
	}
}

// Blobs may be at another host, which receives no credential.
func TestBlobRedirect(t *testing.T) {
	dir := stocked(t)
	blobs := newSite(t, http.FileServer(http.Dir(filepath.Join(dir, "data"))).ServeHTTP)
	middleware := fmt.Sprintf("middleware: {storage: [{name: redirect, options: {baseurl: %q}}]}\n", blobs.URL)
	s := front(t, withHtpasswd(t, dir, middleware))
	both := func(host string) fetch.Credential {
		return fetch.Credential{Host: host, Username: user, Password: egress.NewSecret(password)}
	}
	p, err := get(t, newGetter(t, both(s.host), both(blobs.host)), "oci://"+s.host+"/corp/vpc?tag=1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	if p.Source.URL != "oci://"+s.host+"/corp/vpc" {
		t.Errorf("source %+v", p.Source)
	}
	if sent := blobs.authorizations(); len(sent) != 1 || sent[0] != "" {
		t.Errorf("the host of blobs received %q, want one request without a credential", sent)
	}
	blobs.handle = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Basic realm=blobs")
		w.WriteHeader(http.StatusUnauthorized)
	}
	_, err = get(t, newGetter(t, both(s.host), both(blobs.host)), "oci://"+s.host+"/corp/vpc?tag=1.0.0")
	checkDenied(t, err, blobs.host+" answered 401")
	if sent := blobs.authorizations(); len(sent) != 1 || sent[0] != "" {
		t.Errorf("the host of blobs asked for a credential, and received %q", sent)
	}
}

// No answer of a token service means that the repository does not exist. No error contains the answer.
func TestTokenServiceFails(t *testing.T) {
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		is     error
	}{
		"missing":   {http.NotFound, modproxy.ErrUnavailable},
		"failing":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, modproxy.ErrUnavailable},
		"redirects": {http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP, modproxy.ErrUnavailable},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "correct-horse") }, modproxy.ErrInvalid},
		"no token":  {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, modproxy.ErrInvalid},
		"two lines": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"correct-horse\nX: y"}`) }, modproxy.ErrInvalid},
		"a long token": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"token":"%s"}`, strings.Repeat("a", 70_000))
		}, modproxy.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			tokens := newSite(t, test.answer)
			s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="`+tokens.URL+`/token"`)
				w.WriteHeader(http.StatusUnauthorized)
			})
			_, err := get(t, newGetter(t), "oci://"+s.host+"/corp/vpc?tag=1.0.0")
			if !errors.Is(err, test.is) || errors.Is(err, modproxy.ErrNotFound) || strings.Contains(err.Error(), "horse") {
				t.Errorf("error %v, want %v", err, test.is)
			}
			if len(s.sent()) > 6 || len(tokens.sent()) > 6 {
				t.Error("too many requests")
			}
		})
	}
}

// A token service that is not at an https URL receives no request.
func TestTokenServiceIsRefused(t *testing.T) {
	for _, challenge := range []string{
		`Bearer realm="http://127.0.0.1/token"`, `Bearer realm="/token"`, `Bearer realm="https://u:p@127.0.0.1/token"`, "Bearer", "Digest realm=x", "",
	} {
		s := newSite(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", challenge)
			w.WriteHeader(http.StatusUnauthorized)
		})
		g := newGetter(t, fetch.Credential{Host: s.host, Username: user, Password: egress.NewSecret(password)})
		_, err := get(t, g, "oci://"+s.host+"/corp/vpc?tag=1.0.0")
		if !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("%s: error %v", challenge, err)
		}
		if sent := s.authorizations(); len(sent) != 1 || sent[0] != "" {
			t.Errorf("%s: the registry received %q", challenge, sent)
		}
	}
}

// A registry that repeats a credential in its answer makes no error show it.
func TestSecretsAreHidden(t *testing.T) {
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		_, sent, isBasic := r.BasicAuth()
		if !isBasic {
			w.Header().Set("WWW-Authenticate", "Basic realm=x")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", registrytest.ManifestType)
		json.NewEncoder(w).Encode(map[string]string{"mediaType": registrytest.ManifestType, "artifactType": "x/" + sent + r.Header.Get("Authorization")})
	})
	g := newGetter(t, fetch.Credential{Host: s.host, Username: user, Password: egress.NewSecret(password)})
	_, err := get(t, g, "oci://"+s.host+"/corp/vpc?tag=1.0.0")
	if !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), `artifactType is "x/[redacted]`) ||
		strings.Contains(err.Error(), strings.TrimPrefix(fetch.Basic(user, password).Reveal(), "Basic ")) {
		t.Errorf("error %v", err)
	}
}
