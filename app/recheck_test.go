package app

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger/ledgertest"
)

// fetcher counts packages.
type fetcher struct {
	modproxy.Registry
	mu      sync.Mutex // guards what follows, and what the test counts
	fetched []string
	turns   int // that are taken
	err     error
}

func (f *fetcher) turn(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.turns += n
}

type nothing struct{ *strings.Reader }

func (nothing) Close() error { return nil }

func (f *fetcher) Package(_ context.Context, v modproxy.ModuleVersion) (*modproxy.Package, error) {
	version := v.Version
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetched = append(f.fetched, version)
	if f.turns != 1 {
		f.fetched = append(f.fetched, "without a turn")
	}
	return &modproxy.Package{ReadSeekCloser: nothing{strings.NewReader("")}}, f.err
}

// A version is asked about once in Every, and fetched once for each commit that is
// not the recorded one.
func TestRecheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		book := ledgertest.NewMemory()
		for _, version := range []string{"1.0.0", "2.0.0", "3.0.0", "4.0.0"} {
			r := ledgertest.NewRecord(vpc, version, version)
			r.Source = modproxy.Source{URL: "https://git.example.com/vpc.git", Commit: "c0ffee"}
			if version == "4.0.0" {
				r.Source.Commit = "" // an archive
			}
			must(t, book.Add(r))
		}
		held := &fetcher{}
		commits := map[string]string{"1.0.0": "c0ffee", "2.0.0": "c0ffee"} // 3.0.0: only a fetch could tell
		asked := map[string]int{}
		r := &recheck{
			Every: time.Hour, Ledger: book, Held: held, FetchTimeout: time.Minute, Log: zap.NewNop(),
			Turn: func(context.Context, modproxy.Module) (func(), error) {
				held.turn(1)
				return func() { held.turn(-1) }, nil
			},
			Commit: func(_ context.Context, _ modproxy.Module, version string) (string, error) {
				held.mu.Lock()
				defer held.mu.Unlock()
				asked[version]++
				if version == "2.0.0" && asked[version]%2 == 0 {
					return "", errors.New("upstream is in trouble")
				}
				return commits[version], nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx); close(done) }()
		wait := func(rounds int) {
			held.mu.Unlock()
			time.Sleep(time.Duration(rounds)*time.Hour + time.Minute)
			held.mu.Lock()
		}
		held.mu.Lock() // the test looks while nothing goes on
		wait(2)
		if asked["1.0.0"] != 2 || asked["2.0.0"] != 2 || asked["3.0.0"] != 2 || asked["4.0.0"] != 0 || len(held.fetched) != 0 {
			t.Errorf("asked %v, fetched %v", asked, held.fetched)
		}
		commits["1.0.0"], held.err = "0ddba11", modproxy.ErrChanged
		wait(3)
		if len(held.fetched) != 1 || held.fetched[0] != "1.0.0" {
			t.Errorf("fetched %v; want 1.0.0 once", held.fetched)
		}
		commits["1.0.0"] = "c0ffee" // taken back, and moved again
		wait(1)
		commits["1.0.0"] = "0ddba11"
		wait(2)
		if len(held.fetched) != 2 {
			t.Errorf("fetched %v; want 1.0.0 once more", held.fetched)
		}
		commits["2.0.0"], held.err = "0ddba11", modproxy.ErrUnavailable // which says nothing about it
		wait(2)
		held.err = modproxy.ErrChanged
		wait(4)
		if len(held.fetched) != 4 {
			t.Errorf("fetched %v; want 2.0.0 until it is known what it has", held.fetched)
		}
		held.mu.Unlock()
		cancel()
		<-done
		(&recheck{Log: zap.NewNop()}).run(t.Context()) // which returns
	})
}
