package app

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch/git"
)

// After a check of git that failed, readiness begins another one, without waiting for it. All probes share it, and a git that is in
// order is not checked again.
func TestGitIsCheckedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := fmt.Errorf("%w: %w", modproxy.ErrUnavailable, git.ErrSlow)
		missing := errors.New("git is not in PATH")
		checks, answer, takes := 0, slow, 5*time.Second
		g := newGitProgram(t.Context(), func(context.Context) error {
			checks++
			result := answer
			time.Sleep(takes)
			return result
		})
		probe := func(times int, want error, state string) {
			t.Helper()
			began := time.Now()
			for range times {
				if p := g.problem(); p.Err != want || want != nil && p.State != state || !p.Minor {
					t.Errorf("problem %+v, want %q and %v", p, state, want)
				}
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("probes waited %v", took)
			}
		}
		const notChecked, notDownloaded = "the git program has not been checked yet", "no package is downloaded from git repositories"

		probe(9, slow, notChecked)
		if checks != 1 {
			t.Errorf("%d checks right after the first one", checks)
		}
		time.Sleep(gitRetry)
		answer = missing
		probe(9, slow, notChecked)
		time.Sleep(takes + time.Second)
		probe(9, missing, notDownloaded)
		if checks != 2 {
			t.Errorf("%d checks, want 2: one for all probes", checks)
		}
		time.Sleep(gitRetry)
		answer = nil
		probe(1, missing, notDownloaded)
		time.Sleep(takes + time.Second)
		probe(9, nil, "")
		time.Sleep(gitRetry)
		probe(9, nil, "")
		synctest.Wait()
		if checks != 3 {
			t.Errorf("%d checks, want 3: git is in order", checks)
		}
	})
}

// Offline, git has no problem.
func TestGitOffline(t *testing.T) {
	if p := (*gitProgram)(nil).problem(); p.Err != nil {
		t.Errorf("problem %+v", p)
	}
}
