package auth_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/auth"
)

var acme = []auth.Scope{{Host: "corp", Namespace: "acme"}}

func open(t testing.TB, path string) *auth.Tokens {
	t.Helper()
	tokens, err := auth.OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func create(t testing.TB, tokens *auth.Tokens, spec auth.Token) (string, auth.Token) {
	t.Helper()
	text, made, err := tokens.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return text, made
}

func why(err error) string {
	var refused *auth.Refused
	if errors.As(err, &refused) {
		return refused.Why
	}
	return ""
}

func TestVerify(t *testing.T) {
	tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	now := time.Now()
	text, made := create(t, tokens, auth.Token{Name: "ci", Scopes: acme, Expires: now.Add(time.Hour)})
	other, _ := create(t, tokens, auth.Token{Name: "other", Admin: true})
	gone, _ := create(t, tokens, auth.Token{Name: "gone", Scopes: acme})
	if _, err := tokens.Revoke(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	p, err := tokens.Verify(text, now)
	if err != nil || p.Kind != auth.ByToken || p.ID != made.ID || p.Name != "ci" || p.Admin ||
		!p.MayRead(module("corp", "acme")) || p.MayRead(module("corp", "x")) {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err := tokens.Verify(other, now); err != nil || !p.Admin || p.MayRead(module("corp", "acme")) {
		t.Fatalf("%+v, %v", p, err)
	}
	secret := text[len("mp_")+16+1:]
	shown := map[string]bool{}
	for name, c := range map[string]struct {
		text string
		now  time.Time
		why  string
	}{
		"nothing":           {"", now, "form"},
		"unknown id":        {"mp_" + strings.Repeat("a", 16) + "_" + secret, now, "no such"},
		"wrong secret":      {text[:len(text)-1] + map[bool]string{true: "b", false: "a"}[strings.HasSuffix(text, "a")], now, "no such"},
		"another's secret":  {text[:20] + other[20:], now, "no such"},
		"no secret":         {text[:20], now, "form"},
		"empty hash":        {text[:20] + strings.Repeat("\x00", 52), now, "no such"},
		"upper case":        {strings.ToUpper(text), now, "form"},
		"upper-case secret": {text[:20] + strings.ToUpper(text[20:]), now, "no such"},
		"longer":            {text + "a", now, "form"},
		"white space":       {text + "\n", now, "form"},
		"expired":           {text, now.Add(time.Hour), "has expired"},
		"revoked":           {gone, now, "was revoked"},
	} {
		p, err := tokens.Verify(c.text, c.now)
		if !errors.Is(err, modproxy.ErrUnauthorized) || p.Kind != auth.Nobody || !strings.Contains(why(err), c.why) {
			t.Errorf("%s: %v, %v (%s)", name, p, err, why(err))
			continue
		}
		if name == "expired" || name == "revoked" { // their secrets are right
			if !strings.Contains(err.Error(), "unauthorized: the token ci (") && !strings.Contains(err.Error(), "unauthorized: the token gone (") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		shown[err.Error()] = true
		if strings.Contains(err.Error()+why(err), secret[:8]) {
			t.Errorf("%s: the error has the secret: %v, %s", name, err, why(err))
		}
	}
	if len(shown) != 1 {
		t.Errorf("strangers can tell errors apart: %v", shown)
	}
}

func TestExpiryOutlastsATurnedClock(t *testing.T) {
	tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	now := time.Now()
	text, _ := create(t, tokens, auth.Token{Name: "ci", Scopes: acme, Expires: now.Add(time.Hour)})
	for _, c := range []struct {
		back, after time.Duration
		good        bool
	}{
		{0, 59 * time.Minute, true},
		{0, time.Hour, false},
		{24 * time.Hour, 0, false}, // a day has passed that the wall clock does not show
		{-24 * time.Hour, 0, true},
		{0, 365 * 24 * time.Hour, false},
	} {
		tokens.TurnBack(c.back)
		if _, err := tokens.Verify(text, now.Add(c.after)); (err == nil) != c.good {
			t.Errorf("turned back by %v, after %v: %v", c.back, c.after, err)
		}
		tokens.TurnBack(-c.back)
	}
}

func TestCreateRefuses(t *testing.T) {
	tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	_, made := create(t, tokens, auth.Token{Name: "ci", Scopes: acme})
	for name, spec := range map[string]auth.Token{
		"no name":        {Scopes: acme},
		"a name taken":   {Name: "ci", Scopes: acme},
		"a name as path": {Name: "a/b", Scopes: acme},
		"a line break":   {Name: "a\nb", Scopes: acme},
		"a long name":    {Name: strings.Repeat("a", 65), Scopes: acme},
		"an id for name": {Name: made.ID, Scopes: acme},
		"no right":       {Name: "x"},
		"a bad scope":    {Name: "x", Scopes: []auth.Scope{{Host: "corp*", Namespace: "x"}}},
		"a zero scope":   {Name: "x", Scopes: []auth.Scope{{}}},
		"scopes":         {Name: "x", Scopes: make([]auth.Scope, 101)},
		"expired":        {Name: "x", Scopes: acme, Expires: time.Now().Add(-time.Second)},
	} {
		if text, _, err := tokens.Create(t.Context(), spec); !errors.Is(err, modproxy.ErrInvalid) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if list, err := tokens.List(); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := tokens.Revoke(t.Context(), "nobody"); !errors.Is(err, modproxy.ErrNotFound) {
		t.Error(err)
	}
}

func TestRevoke(t *testing.T) {
	tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
	first, made := create(t, tokens, auth.Token{Name: "ci", Scopes: acme})
	if _, err := tokens.Revoke(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	second, _ := create(t, tokens, auth.Token{Name: "ci", Scopes: acme}) // the name is free again
	again, err := tokens.Revoke(t.Context(), made.ID)
	if err != nil || again.Name != "ci" || again.ID != made.ID {
		t.Fatal(again, err)
	}
	if _, err := tokens.Verify(first, time.Now()); err == nil {
		t.Error("a revoked token is good")
	}
	if _, err := tokens.Verify(second, time.Now()); err != nil {
		t.Error(err)
	}
	list, err := tokens.List()
	if err != nil || len(list) != 2 || list[0].Revoked.IsZero() == list[1].Revoked.IsZero() {
		t.Error(list, err)
	}
}

func TestTokensAreKeptByManyHands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	server := open(t, path)
	var all sync.WaitGroup
	texts := make([]string, 8)
	for i := range texts {
		all.Go(func() {
			tokens, err := auth.OpenTokens(path)
			if err != nil {
				t.Error(err)
				return
			}
			if texts[i], _, err = tokens.Create(t.Context(), auth.Token{Name: fmt.Sprint("ci", i), Scopes: acme}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, text := range texts {
		if _, err := server.Verify(text, time.Now().Add(time.Second)); err != nil {
			t.Error(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range texts {
		if strings.Contains(string(content), text[20:]) {
			t.Error("the file has a secret")
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp"))
	if err != nil || len(left) != 0 {
		t.Error(left, err)
	}
}

// TestCreateWithTheClockAhead: creating a token while the clock is years ahead removes no valid token.
func TestCreateWithTheClockAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var valid string
	synctest.Test(t, func(t *testing.T) {
		valid, _ = create(t, open(t, path), auth.Token{Name: "valid", Scopes: acme, Expires: time.Now().Add(24 * time.Hour)})
		time.Sleep(5 * 365 * 24 * time.Hour)
		ahead := open(t, path)
		create(t, ahead, auth.Token{Name: "other", Scopes: acme})
		if list, err := ahead.List(); err != nil || len(list) != 1 || list[0].Name != "other" {
			t.Errorf("listed years after its end: %v, %v", list, err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the first
		if p, err := open(t, path).Verify(valid, time.Now()); err != nil || p.Name != "valid" {
			t.Errorf("when the clock is right again: %v (%s)", err, why(err))
		}
	})
}

// TestRevokeWithTheClockAhead: revoking a name that was used again while the clock was ahead revokes all its tokens.
func TestRevokeWithTheClockAhead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	var texts [2]string
	synctest.Test(t, func(t *testing.T) {
		texts[0], _ = create(t, open(t, path), auth.Token{Name: "ci", Scopes: acme, Expires: time.Now().Add(24 * time.Hour)})
		time.Sleep(5 * 365 * 24 * time.Hour)
		texts[1], _ = create(t, open(t, path), auth.Token{Name: "ci", Scopes: acme})
	})
	synctest.Test(t, func(t *testing.T) { // begins at the same time as the first
		tokens := open(t, path)
		if _, err := tokens.Revoke(t.Context(), "ci"); err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if p, err := tokens.Verify(text, time.Now()); !errors.Is(err, modproxy.ErrUnauthorized) {
				t.Errorf("%v still counts: %v", p, err)
			}
		}
	})
}

// TestRoomForTokens: if the file is full, the token that ended first is removed.
func TestRoomForTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := open(t, filepath.Join(t.TempDir(), "tokens.json"))
		for i := range 3 {
			create(t, tokens, auth.Token{Name: fmt.Sprint("brief", i), Scopes: acme, Expires: time.Now().Add(time.Duration(10-i) * time.Hour)})
		}
		defer auth.SetMaxTokens(4)()
		create(t, tokens, auth.Token{Name: "lasting", Scopes: acme})
		if _, _, err := tokens.Create(t.Context(), auth.Token{Name: "more", Scopes: acme}); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("a fifth: %v", err)
		}
		time.Sleep(24 * time.Hour)
		create(t, tokens, auth.Token{Name: "more", Scopes: acme})
		list, err := tokens.List()
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		if got := strings.Join(names, " "); err != nil || got != "brief0 brief1 lasting more" {
			t.Errorf("%s, %v", got, err)
		}
	})
}
