package git_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/egress"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/fetch/git"
)

const (
	secret     = "s3cret-of-the-origin"
	sessionURL = "http://modproxy:" // the beginning of a session's URL, before its password
)

// locked requires user and secret. For every request it checks that no process has the secret in its arguments.
func locked(t testing.TB, h http.Handler) http.Handler {
	var once sync.Once
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, s := range []string{secret, sessionURL} {
			if found := processesWith(t, s, "cmdline"); len(found) > 0 {
				once.Do(func() { t.Errorf("%q is an argument of %s", s, found) })
			}
		}
		if user, password, _ := r.BasicAuth(); user != "user" || password != secret {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func credentialFor(origin, secret string) fetch.Credentials {
	return fetch.Credentials{{Host: strings.TrimPrefix(origin, "https://"), Username: "user",
		Password: egress.NewSecret(secret)}}
}

func TestCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("main.tf", "")
	a.commit("a")
	s := serveTLS(t, locked(t, backend(t, root)))
	bothWays(t, s.caFile, func(t *testing.T, f *git.Getter) { shown(t, f, s) })
}

func shown(t *testing.T, f *git.Getter, s server) {
	for _, test := range []struct {
		origin, secret, says string
	}{
		{"", secret, "denied: authentication required, or no such repository (operator: no credentials[] is for " + s.URL + ")"},
		{"https://other.example", secret,
			"denied: authentication required, or no such repository (operator: no credentials[] is for " + s.URL + ")"},
		{s.URL, "wrong", "denied: the credential for " + s.URL + " was refused (operator: check credentials[])"},
		{s.URL, secret, ""},
	} {
		f.Credentials = credentialFor(test.origin, test.secret)
		_, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git", files{})
		if test.says == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if !errors.Is(err, modproxy.ErrDenied) || !strings.HasSuffix(err.Error(), ": "+test.says) {
			t.Errorf("%s with %q: error %v", test.origin, test.secret, err)
		}
	}
	throughSessions(t, f.Network.(*network), 4)
}

// throughSessions checks that each of want repositories had its own session and used only that, if git connected.
func throughSessions(t *testing.T, n *network, want int) {
	t.Helper()
	if !n.old {
		if n.posts < want || len(n.sessions) > 0 {
			t.Errorf("%d questions, %d sessions", n.posts, len(n.sessions))
		}
		return
	}
	if len(n.sessions) != want {
		t.Errorf("%d sessions, want %d", len(n.sessions), want)
	}
	for i, s := range n.sessions {
		if s.Received() == 0 || s.Refused() != nil {
			t.Errorf("session %d: %d bytes, error %v", i, s.Received(), s.Refused())
		}
	}
}

// A credential is for https, and is not sent over plain http.
func TestNoCredentialOverPlainHTTP(t *testing.T) {
	t.Parallel()
	var seen requests
	s := serve(t, seen.around(locked(t, http.NotFoundHandler())))
	f := newFetcher(t)
	f.Credentials = credentialFor("https://"+strings.TrimPrefix(s.URL, "http://"), secret)
	if _, err := f.FetchURL(t.Context(), s.URL+"/x", files{}); !errors.Is(err, modproxy.ErrDenied) {
		t.Errorf("error %v", err)
	}
	for _, r := range seen.all() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s has the credential", r.Method, r.URL)
		}
	}
}

// A credential is for one origin: a redirect to another origin does not carry it, and a redirect to the same origin
// does.
func TestRedirectCarriesNoCredential(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "new.git")
	a.write("main.tf", "")
	a.commit("a")
	var there requests
	other := serveTLS(t, there.around(backend(t, root)))
	home := backend(t, root)
	here := serveTLS(t, locked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/old.git/"); ok {
			http.Redirect(w, r, "/new.git/"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
		} else if rest, ok := strings.CutPrefix(r.URL.Path, "/away.git/"); ok {
			http.Redirect(w, r, other.URL+"/new.git/"+rest+"?"+r.URL.RawQuery, http.StatusFound)
		} else {
			home.ServeHTTP(w, r)
		}
	})))
	bothWays(t, here.caFile, func(t *testing.T, f *git.Getter) {
		f.Credentials = credentialFor(here.URL, secret)
		for _, name := range []string{"old.git", "away.git"} {
			got := files{}
			if _, err := f.FetchURL(t.Context(), here.URL+"/"+name+"/.git", got); err != nil || len(got) != 1 {
				t.Errorf("%s: %v, error %v", name, got, err)
			}
		}
		throughSessions(t, f.Network.(*network), 4) // two names, with one redirect each
	})
	if len(there.all()) == 0 {
		t.Fatal("the redirect was not followed")
	}
	for _, r := range there.all() {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("%s %s has the credential of another origin", r.Method, r.URL)
		}
	}
}

// No hop bypasses the policy of the tunnel, and the tunnel's refusal is the error.
func TestRefusedByTunnel(t *testing.T) {
	t.Parallel()
	var there requests
	internal := serve(t, there.around(http.NotFoundHandler()))
	front := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, internal.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	bothWays(t, "", func(t *testing.T, f *git.Getter) {
		out := newNetwork(t, strings.TrimPrefix(front.URL, "http://"))
		f.Network, out.old = out, f.Network.(*network).old
		for _, u := range []string{front.URL, internal.URL} {
			_, err := f.FetchURL(t.Context(), u+"/x", files{})
			if !errors.Is(err, modproxy.ErrDenied) || !errors.Is(err, egress.ErrRefused) ||
				strings.Contains(err.Error(), sessionURL) {
				t.Errorf("%s: error %v", u, err)
			}
		}
	})
	if n := len(there.all()); n > 0 {
		t.Errorf("%d requests arrived where none is allowed", n)
	}
}

// A redirect from an encrypted connection to plain http is refused.
func TestNoRedirectToPlainHTTP(t *testing.T) {
	t.Parallel()
	var there requests
	plain := serve(t, there.around(http.NotFoundHandler()))
	front := serveTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+r.URL.RequestURI(), http.StatusFound)
	}))
	bothWays(t, front.caFile, func(t *testing.T, f *git.Getter) {
		if _, err := f.FetchURL(t.Context(), front.URL+"/x", files{}); !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("error %v", err)
		}
	})
	if n := len(there.all()); n > 0 {
		t.Errorf("%d requests over plain http", n)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup // the pauses before repetitions pass at the same time
	for status, is := range map[int]error{
		403: modproxy.ErrDenied, 404: modproxy.ErrNotFound, 410: modproxy.ErrNotFound,
		429: modproxy.ErrUnavailable, 500: modproxy.ErrUnavailable, 503: modproxy.ErrUnavailable,
		200: modproxy.ErrUnavailable,
	} {
		s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "not a repository \x1b[31m", status)
		}))
		for _, f := range []*git.Getter{newFetcher(t), oldFetcher(t)} {
			all.Go(func() {
				_, err := f.FetchURL(t.Context(), s.URL+"/x?ref=v1", files{})
				if !errors.Is(err, is) || strings.ContainsRune(err.Error(), '\x1b') {
					t.Errorf("%d, direct: %v: error %v", status, !f.Network.(*network).old, err)
				}
			})
		}
	}
	all.Wait()
	gone := serve(t, http.NotFoundHandler())
	gone.Close()
	if _, err := newFetcher(t).FetchURL(t.Context(), gone.URL+"/x", files{}); !errors.Is(err, modproxy.ErrUnavailable) {
		t.Errorf("nobody listens: error %v", err)
	}
}

// The error about an untrusted certificate tells the operator what to do, with git and without it.
func TestUntrusted(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a := newAuthor(t, root, "a.git")
	a.write("main.tf", "")
	a.commit("a")
	s, other := serveTLS(t, backend(t, root)), otherAuthority(t)
	bothWays(t, other, func(t *testing.T, f *git.Getter) {
		_, err := f.FetchURL(t.Context(), s.URL+"/a.git/.git", files{})
		if !errors.Is(err, modproxy.ErrUnavailable) || !strings.HasSuffix(err.Error(), "(operator: egress.ca_file can name the certificate authority)") {
			t.Error(err)
		}
	})
}

// otherAuthority returns a file with a certificate that has signed nothing.
func otherAuthority(t *testing.T) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
