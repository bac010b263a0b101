package upstream

import (
	"net/http"
	"testing"
	"time"
)

// The age of a cached answer counts: without it, the clock of a registry behind a cache would look slow.
func TestDateOf(t *testing.T) {
	sent := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for age, want := range map[string]time.Time{"": sent, "90": sent.Add(90 * time.Second), "-1": sent, "soon": sent} {
		h := http.Header{"Date": {sent.Format(http.TimeFormat)}, "Age": {age}}
		if got := dateOf(h); !got.Equal(want) {
			t.Errorf("with the age %q: %v, want %v", age, got, want)
		}
	}
	if got := dateOf(http.Header{"Date": {"now"}}); !got.IsZero() {
		t.Errorf("without a date: %v", got)
	}
}
