package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/fetch"
	"github.com/modproxy/modproxy/pack"
)

// hanging is a getter whose host dead.test does not answer; for paths with "slow" it sends one byte first.
type hanging struct{ has }

func (h hanging) Fetch(ctx context.Context, s fetch.Source, tree *pack.Builder) (fetch.Result, error) {
	if !strings.Contains(strings.ToLower(s.URL), "dead.test") {
		return h.has.Fetch(ctx, s, tree)
	}
	meter := modproxy.MeterOf(ctx)
	defer meter.Begin()()
	if strings.Contains(s.URL, "slow") {
		meter.Add(1)
	}
	<-ctx.Done()
	return fetch.Result{}, context.Cause(ctx)
}

// A bounded number of fetches wait for a host that does not answer. Other hosts are unaffected, and so is a host whose
// packages arrive, however slowly.
func TestSilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := table(t, map[string]fetch.Getter{"git": hanging{"main.tf"}})
		get := func(ctx context.Context, what string) error {
			p, err := tb.Package(modproxy.WithMeter(ctx, &modproxy.Meter{}), at("git", "https://"+what, ""))
			if err == nil {
				p.Close()
			}
			return err
		}
		var all sync.WaitGroup
		begin := func(what string, n int) (end func()) {
			ctx, end := context.WithCancel(t.Context())
			for i := range n {
				all.Go(func() { _ = get(ctx, fmt.Sprintf("%s%d", what, i)) }) // the test ends it
			}
			synctest.Wait()
			return end
		}
		refused := func(what string) bool {
			t.Helper()
			ctx, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			err := get(ctx, what)
			later, refused := errors.AsType[*modproxy.RetryLater](err)
			if refused && (!errors.Is(err, modproxy.ErrUnavailable) || time.Until(later.After) != 10*time.Second) {
				t.Errorf("%s: %v, again after %v", what, err, time.Until(later.After))
			}
			return refused
		}
		endSlow := begin("dead.test/slow", 40)
		time.Sleep(time.Minute)
		endFew := begin("dead.test/few", 15)
		time.Sleep(time.Minute)
		if refused("dead.test/x") {
			t.Error("refused with 15 that wait")
		}
		endMore := begin("DEAD.test:443/more", 30)
		time.Sleep(8 * time.Second)
		if refused("dead.test/x") {
			t.Error("refused with some that wait for a few seconds")
		}
		time.Sleep(2 * time.Second)
		if !refused("dead.test/x") || !refused("dead.test/slow") {
			t.Error("not refused")
		}
		if err := get(t.Context(), "good.test/x"); err != nil {
			t.Errorf("another host: %v", err)
		}
		endMore()
		synctest.Wait()
		if refused("dead.test/x") {
			t.Error("refused when they have ended")
		}
		endFew()
		endSlow()
		all.Wait()
	})
}
