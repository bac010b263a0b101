package ledger_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// mover is an upstream whose tags move.
type mover struct {
	commitless
	mu      sync.Mutex // guards the fields below
	commits map[string]string
	asked   map[string]int
	fetched []string
	turns   int // slots in use
	err     error
	sum     string
	refused string // a version that Check denies
	refuses string // a version that Check denies once it waits for a slot
}

func (u *mover) Commit(_ context.Context, v modproxy.Ref) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked[v.Version]++
	if v.Version == "2.0.0" && u.asked[v.Version]%2 == 0 {
		return "", errors.New("upstream is in trouble")
	}
	return u.commits[v.Version], nil
}

func (u *mover) Turn(ctx context.Context, _ modproxy.Address) (context.Context, func(), error) {
	u.turn(1)
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refused = cmp.Or(u.refuses, u.refused)
	return ctx, func() { u.turn(-1) }, nil
}

func (u *mover) turn(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.turns += n
}

// Check implements [ledger.Gate].
func (u *mover) Check(_ context.Context, v modproxy.Ref) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if v.Version == u.refused {
		return &modproxy.Error{Op: "package", Ref: v, Err: modproxy.ErrDenied}
	}
	return nil
}

type nothing struct{ *strings.Reader }

func (nothing) Verify(context.Context) error { return nil }

func (nothing) Close() error { return nil }

func (u *mover) Package(_ context.Context, v modproxy.Ref) (*modproxy.Package, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.fetched = append(u.fetched, v.Version)
	if u.turns != 1 {
		u.fetched = append(u.fetched, "without a turn")
	}
	if u.err != nil {
		return nil, u.err
	}
	return &modproxy.Package{
		Body: nothing{strings.NewReader("")}, Sum: ledgertest.Sum(u.sum), Subdir: "modules/ü",
		Source: modproxy.Source{URL: "https://git.example.com/vpc.git", Commit: u.commits[v.Version]},
	}, nil
}

// TestRecheck: each version is checked once in Every, and downloaded once for each commit other than the recorded one.
func TestRecheck(t *testing.T) {
	book := ledgertest.NewMemory()
	for _, version := range []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0"} {
		r := ledgertest.NewRecord(vpc, version, "same")
		r.Source = modproxy.Source{URL: "https://git.example.com/vpc.git", Commit: "c0ffee"}
		if version == "4.0.0" {
			r.Source.Commit = "" // from an archive
		}
		mustAdd(t, book, r)
	}
	synctest.Test(t, func(t *testing.T) {
		u := &mover{asked: map[string]int{}, commits: map[string]string{"1.0.0": "c0ffee", "2.0.0": "c0ffee"}} // 3.0.0: only a download can tell the commit
		var events []ledger.Kind
		reg := &ledger.Registry{Next: u, Ledger: book, Observe: func(e ledger.Event) {
			u.mu.Lock()
			defer u.mu.Unlock()
			events = append(events, e.Kind)
			if e.Kind == ledger.Moved && (e.Commit != "0ddba11" || e.Record.Source.Commit != "c0ffee" || e.Address != vpc) {
				t.Errorf("event %+v", e)
			}
		}}
		r := &ledger.Recheck{Registry: reg, Every: time.Hour, FetchTimeout: time.Minute, Turns: u, Gate: u}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		wait := func(rounds int) {
			u.fetched, events = nil, nil
			u.mu.Unlock()
			time.Sleep(time.Duration(rounds)*time.Hour + time.Minute)
			u.mu.Lock()
		}
		want := func(what string, fetched ...string) {
			t.Helper()
			if !slices.Equal(u.fetched, fetched) {
				t.Errorf("%s: fetched %q, want %q", what, u.fetched, fetched)
			}
		}
		u.mu.Lock() // unlocked only in wait: outside, nothing else runs
		wait(2)
		if u.asked["1.0.0"] != 2 || u.asked["2.0.0"] != 2 || u.asked["3.0.0"] != 2 || u.asked["4.0.0"] != 0 {
			t.Errorf("asked %v", u.asked)
		}
		want("nothing has moved")
		u.commits["1.0.0"], u.sum = "0ddba11", "other"
		wait(3)
		want("1.0.0 has moved", "1.0.0")
		if got := slices.DeleteFunc(events, func(k ledger.Kind) bool { return k == ledger.Unasked }); !slices.Equal(got, []ledger.Kind{ledger.Drifted, ledger.Moved}) {
			t.Errorf("events %v", got)
		}
		u.commits["1.0.0"] = "c0ffee"
		wait(1)
		u.commits["1.0.0"], u.sum = "0ddba11", "same"
		wait(2)
		want("1.0.0 was taken back, and moved again", "1.0.0")
		if slices.Contains(events, ledger.Drifted) || !slices.Contains(events, ledger.Moved) {
			t.Errorf("events %v; want that the same content has moved", events)
		}
		u.commits["1.0.0"], u.refused = "f00", "1.0.0"
		asked := u.asked["1.0.0"]
		wait(2)
		want("1.0.0 is refused")
		if n := u.asked["1.0.0"] - asked; n != 0 || len(events) > 1 {
			t.Errorf("%d questions about what is refused, events %v", n, events)
		}
		u.refused, u.refuses = "", "1.0.0"
		wait(2)
		want("1.0.0 is refused while it waits for a turn")
		u.commits["1.0.0"], u.refused, u.refuses = "0ddba11", "", ""
		u.commits["2.0.0"], u.err = "0ddba11", modproxy.ErrUnavailable // an error that tells nothing about the content
		wait(4)
		want("2.0.0 cannot be fetched", "2.0.0", "2.0.0")
		u.err = nil
		wait(4)
		want("2.0.0 can be fetched", "2.0.0")
		book.Fail(errors.New("no space left"))
		wait(1)
		if !slices.Contains(events, ledger.Failed) {
			t.Errorf("events %v; want that the ledger has failed", events)
		}
		u.mu.Unlock()
		cancel()
		<-done
		(&ledger.Recheck{}).Run(t.Context()) // must return at once
	})
	n := 0
	book.Fail(nil)
	for range book.Drifts(t.Context()) {
		n++
	}
	if n != 1 {
		t.Errorf("%d observations, want 1", n)
	}
}
