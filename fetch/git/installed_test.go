package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// Installed distinguishes a git that is slow from one that is missing, too old or broken.
func TestInstalled(t *testing.T) {
	for _, test := range []struct {
		program string // empty: no git
		within  time.Duration
		slow    bool
		want    string // in the error; empty: no error
	}{
		{"", time.Minute, false, "git is not in PATH"},
		{"echo git version 2.31.0", time.Minute, false, ""},
		{"echo git version 3.0.0.windows.1", time.Minute, false, ""},
		{"echo git version 2.30.9", time.Minute, false, "git is version 2.30: want 2.31 or newer"},
		{"echo something else", time.Minute, false, "git does not say its version"},
		{"echo fatal: broken >&2; exit 1", time.Minute, false, "git ended with status 1: broken"},
		{"/bin/sleep 600 & wait", 100 * time.Millisecond, true, "git has not answered within 5s"}, // a child holds the output open
	} {
		dir := t.TempDir()
		if test.program != "" {
			if err := os.WriteFile(filepath.Join(dir, "git"), []byte("#!/bin/sh\n"+test.program+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv("PATH", dir)
		ctx, cancel := context.WithTimeout(t.Context(), test.within)
		err := git.Installed(ctx)
		cancel()
		switch {
		case test.want == "" && err == nil:
		case test.want == "" || err == nil || !strings.Contains(err.Error(), test.want):
			t.Errorf("%q: error %v, want %q", test.program, err, test.want)
		case !errors.Is(err, modproxy.ErrUnavailable) || errors.Is(err, git.ErrSlow) != test.slow:
			t.Errorf("%q: error %v: unavailable %v, slow %v", test.program, err, errors.Is(err, modproxy.ErrUnavailable), errors.Is(err, git.ErrSlow))
		}
	}
}
