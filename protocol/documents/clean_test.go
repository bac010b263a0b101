package documents

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/clean"
)

func isWeb(t *testing.T, urls ...string) {
	t.Helper()
	for _, s := range urls {
		u, err := url.Parse(s)
		if s != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || webURL(nil, s) != s && len(s) <= clean.MaxLine) {
			t.Errorf("%q is no URL for people: %v", s, err)
		}
	}
}

func isCount(t *testing.T, counts ...int64) {
	t.Helper()
	for _, n := range counts {
		if n < 0 {
			t.Errorf("a count of %d", n)
		}
	}
}

func isDate(t *testing.T, at time.Time) {
	t.Helper()
	if again := date(at.Format(time.RFC3339Nano)); !at.IsZero() && !again.Equal(at) {
		t.Errorf("%v becomes %v", at, again)
	}
}

func isSummary(t *testing.T, s modproxy.Summary) {
	t.Helper()
	isWeb(t, s.Logo, s.Source)
	isCount(t, s.Downloads)
	isDate(t, s.Published)
	isClean(t, s)
}

// isClean fails if a value has control characters, except those that are allowed in prose.
func isClean(t *testing.T, v any) {
	t.Helper()
	text, err := json.Marshal(v)
	var all any
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	var look func(v any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
				t.Errorf("control characters in %q", v)
			}
		case []any:
			for _, e := range v {
				look(e)
			}
		case map[string]any:
			for _, e := range v {
				look(e)
			}
		}
	}
	look(all)
}
