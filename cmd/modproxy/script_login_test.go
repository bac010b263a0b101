package main_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// logins are the users who log in at an issuer.
type logins struct {
	mu     sync.Mutex
	claims []string              // of their access tokens; a claim without a value is the token itself
	codes  map[string]url.Values // issued codes, with the parameters of their requests
}

// redirects are the redirect URIs of the issuer's client, also with a code.
var redirects = regexp.MustCompile(`^http://localhost:2[0-9]{4}/login(\?code=|$)`)

// serveAuthorize answers a browser whose user is logged in and agrees.
func (i *issuer) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name, want := range map[string]string{
		"tenant": "one", "audience": "modproxy", "client_id": "cli", "response_type": "code", "scope": "openid modules", "code_challenge_method": "S256",
	} {
		if got := q.Get(name); got != want {
			http.Error(w, fmt.Sprintf("%s=%s, want %s", name, got, want), http.StatusBadRequest)
			return
		}
	}
	if !redirects.MatchString(q.Get("redirect_uri")) || q.Get("state") == "" || q.Get("code_challenge") == "" {
		http.Error(w, r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	code := fmt.Sprint("code-", len(i.codes))
	i.codes[code] = q
	i.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// serveToken issues a token for a code (RFC 6749, section 4.1.3; RFC 7636, section 4.6).
func (i *issuer) serveToken(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	q, claims := i.codes[r.PostFormValue("code")], i.claims
	i.codes[r.PostFormValue("code")] = nil
	i.mu.Unlock()
	hash := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	_, _, secret := r.BasicAuth()
	switch {
	case r.Method != http.MethodPost || r.PostFormValue("grant_type") != "authorization_code" || q == nil || secret,
		r.PostFormValue("client_id") != q.Get("client_id"), r.PostFormValue("redirect_uri") != q.Get("redirect_uri"),
		base64.RawURLEncoding.EncodeToString(hash[:]) != q.Get("code_challenge"):
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	access, err := i.sign(claims)
	if len(claims) == 1 && !strings.Contains(claims[0], "=") {
		access, err = claims[0], nil
	}
	id, errID := i.sign([]string{"aud=cli"})
	if err != nil || errID != nil {
		http.Error(w, fmt.Sprint(err, errID), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]any{"access_token": access, "id_token": id, "token_type": "Bearer", "expires_in": 3600})
}

// runLogin runs the client's login. Without a browser, the client prints the URL. Clients read the stored token only if no variable names
// their configuration (LoadConfig in command/cliconfig).
func runLogin(ts *testscript.TestScript, neg bool, args []string) {
	w := worldOf(ts)
	if len(args) != 1 || w.issuer == nil {
		ts.Fatalf("usage: login HOST, after issuer start")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.program, "login", "-no-color", args[0])
	cmd.Dir, cmd.Env, cmd.Stdin = w.dir, append(w.env[:len(w.env):len(w.env)], "TF_CLI_CONFIG_FILE=", "PATH="+w.path("home")), strings.NewReader("yes\n")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = cmd.Stdout
	ts.Check(cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(ts.Stdout(), lines.Text())
		if where := strings.TrimSpace(lines.Text()); strings.HasPrefix(where, "https://") && strings.Contains(where, "code_challenge") {
			if err := browse(ctx, where); err != nil {
				cancel() // the client would wait forever
				fmt.Fprintln(ts.Stdout(), err)
			}
		}
	}
	check(ts, neg, cmd.Wait())
}

// browse follows the redirects of a browser, which must lead to the client. Terraform exits as soon as it has the code, and may not
// answer.
func browse(ctx context.Context, where string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: roundTrip(send)}).Do(r)
	if at := (*url.Error)(nil); errors.As(err, &at) && redirects.MatchString(at.URL) {
		return nil
	}
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if page, err := io.ReadAll(answer.Body); !redirects.MatchString(answer.Request.URL.String()) {
		return fmt.Errorf("%s: %s: %s (%v)", answer.Request.URL, answer.Status, page, err)
	}
	return nil
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
