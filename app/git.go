package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/modproxy/modproxy/fetch/git"
	"github.com/modproxy/modproxy/proxy"
)

// gitRetry is the least time between the end of a check of git that failed and the next check.
const gitRetry = 10 * time.Second

// gitProgram knows whether the git program can download packages. After a check that failed, git is checked again when a caller
// wants to know: git may have been slow because the machine was busy, or may be installed later. It is safe for concurrent use.
type gitProgram struct {
	installed func(context.Context) error // [git.Installed], but for tests

	mu       sync.Mutex
	err      error     // of the last check that has ended; nil if git is in order
	next     time.Time // no check begins before this time
	checking bool
}

// newGitProgram checks git, and returns the result of the check for later.
func newGitProgram(ctx context.Context, installed func(context.Context) error) *gitProgram {
	err := installed(ctx)
	return &gitProgram{installed: installed, err: err, next: time.Now().Add(gitRetry)}
}

// failed returns the error of the last check, or nil. After a check that failed, it begins another one, and does not wait for it: all
// callers share one check.
func (g *gitProgram) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil && !g.checking && !time.Now().Before(g.next) {
		g.checking = true
		go g.check()
	}
	return g.err
}

func (g *gitProgram) check() {
	err := g.installed(context.Background()) // ends by itself within seconds
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err, g.next, g.checking = err, time.Now().Add(gitRetry), false
}

// problem returns the problem of git for readiness. Its Err is nil if git is in order, or if g is nil: offline, git is not used.
func (g *gitProgram) problem() proxy.Problem {
	if g == nil {
		return proxy.Problem{}
	}
	err := g.failed()
	state := "no package is downloaded from git repositories"
	if errors.Is(err, git.ErrSlow) { // packages may come all the same
		state = "the git program has not been checked yet"
	}
	return proxy.Problem{State: state, Err: err, Minor: true}
}
