package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/proxy"
)

func mustClaim(t *testing.T, dir string) *claim {
	t.Helper()
	c, err := claimData(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.close() })
	return c
}

func TestClaim(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	c := mustClaim(t, dir)
	if _, err := claimData(dir); !errors.Is(err, errClaimed) {
		t.Errorf("a directory was claimed twice: %v", err)
	}
	if _, err := readServer(dir); err == nil {
		t.Error("nobody serves, and somebody said so")
	}
	if err := c.announce("http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	s, err := readServer(dir)
	if err != nil || s.URL != "http://127.0.0.1:1" || s.PID != os.Getpid() || len(s.Token) < 26 {
		t.Errorf("server %+v, %v", s, err)
	}
	if info, err := os.Stat(filepath.Join(dir, serverName)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v; it lets in whoever reads it", serverName, info.Mode(), err)
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	if next := mustClaim(t, dir); next.token == c.token {
		t.Error("the token is the one of the process before")
	}
}

// words is an API with one question.
func words(answers string) []proxy.Mount {
	return []proxy.Mount{{Method: "POST", Path: "/-/api/word", Kind: "api", Handle: func(w http.ResponseWriter, r *http.Request) error {
		var in struct{ Word string }
		if err := readJSON(w, r, &in); err != nil {
			return err
		}
		if in.Word == "bad" {
			return fmt.Errorf("%w: bad word", modproxy.ErrInvalid)
		}
		return writeJSON(w, map[string]string{"word": in.Word, "by": answers})
	}}}
}

func opener(mounts []proxy.Mount, closed *int) open {
	return func(*config.Config) ([]proxy.Mount, func() error, error) {
		return mounts, func() error { *closed++; return nil }, nil
	}
}

// A verb is answered by the process that serves, and by itself when none does.
func TestAPI(t *testing.T) {
	c := &config.Config{Data: t.TempDir()}
	closed := 0
	ask := func(want string) {
		t.Helper()
		err := withAPI(t.Context(), c, opener(words("verb"), &closed), func(a *api) error {
			var out struct{ Word, By string }
			err := a.ask(t.Context(), "POST", "/-/api/word", map[string]string{"word": "hello"}, &out)
			if out.Word != "hello" || out.By != want {
				t.Errorf("answer %+v, %v; want one by the %s", out, err, want)
			}
			var refused *apiError
			err = a.ask(t.Context(), "POST", "/-/api/word", map[string]string{"word": "bad"}, nil)
			if !errors.As(err, &refused) || refused.Status != http.StatusBadRequest || err.Error() != "invalid: bad word" {
				t.Errorf("error %v", err)
			}
			if err := a.ask(t.Context(), "POST", "/-/api/word", map[string]string{"wrod": ""}, nil); !errors.As(err, &refused) {
				t.Errorf("what is not understood: %v", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	ask("verb")
	own := mustClaim(t, c.Data)
	server := httptest.NewTLSServer(proxy.New(proxy.Config{Mounts: words("server"), Operator: own.admits}))
	defer server.Close()
	if err := own.announce(server.URL); err != nil {
		t.Fatal(err)
	}
	ask("server")
	for name, authorization := range map[string]string{"nobody": "", "another": "Bearer " + strings.Repeat("A", 26)} {
		r := httptest.NewRequest("POST", "/-/api/word", strings.NewReader(`{}`))
		r.Header.Set("Authorization", authorization)
		w := httptest.NewRecorder()
		if server.Config.Handler.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
			t.Errorf("%s was answered %d %s", name, w.Code, w.Body)
		}
	}
	own.close()
	ask("verb")
	if closed != 2 {
		t.Errorf("released %d times, want 2", closed)
	}
	c.Data = filepath.Join(c.Data, "nowhere")
	if err := withAPI(t.Context(), c, nil, nil); err == nil {
		t.Error("a directory that is not there was made")
	}
}
