//go:build linux

package hostile_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// asClient requests as a client does: for at most ten seconds, and again after a 5xx.
func (p *proxy) asClient(path string) rig.Answer {
	a := p.ask(http.MethodGet, path)
	if a.Status < 500 || a.Took > 10*time.Second {
		return a
	}
	wait, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil {
		wait = 1
	}
	time.Sleep(time.Duration(wait) * time.Second)
	return p.ask(http.MethodGet, path)
}

// If a registry is available in every other period of two seconds, clients hardly notice. Soon after it is available permanently, all
// requests succeed.
func TestRegistriesThatComeAndGo(t *testing.T) {
	p := startOwn(t, ordinary, hedging)
	rounds, perSecond := 10, 20
	few := shorter(t, "2 outages of one kind instead of 10 of three")
	if few {
		rounds, perSecond = 2, 10
	}
	for name, trouble := range map[string]http.HandlerFunc{
		"hangs": slow(t, false),
		"cut":   func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		"502":   func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(502) },
	} {
		if few && name != "cut" {
			continue
		}
		p.run(name, func(t *testing.T) {
			var down atomic.Bool
			var whileDown atomic.Int64
			host := (&registry{versions: func(w http.ResponseWriter, r *http.Request) {
				if down.Load() {
					whileDown.Add(1)
					trouble(w, r)
					return
				}
				io.WriteString(w, `{"modules":[{"versions":[{"version":"1.0.0"}]}]}`)
			}}).host(t)
			var group sync.WaitGroup
			var asked, failed, after atomic.Int64
			clients := func(seconds int, failed *atomic.Int64) {
				for range seconds * perSecond {
					m := module{host, fmt.Sprintf("n%d", asked.Load()%5), fmt.Sprintf("m%d", asked.Add(1)), "aws"}
					group.Go(func() {
						if a := p.asClient(m.path("versions")); a.Status != http.StatusOK {
							failed.Add(1)
						}
					})
					time.Sleep(time.Second / time.Duration(perSecond))
				}
			}
			for range rounds {
				clients(2, &failed)
				down.Store(true)
				clients(2, &failed)
				down.Store(false)
			}
			group.Wait()
			t.Logf("%d of %d requests failed; %d questions while it was down", failed.Load(), asked.Load(), whileDown.Load())
			most := asked.Load() / 100
			if !rig.Long() { // a busy machine answers late, which clients take for an error
				most = asked.Load() / 4
			}
			if failed.Load() > most {
				t.Errorf("%d of %d requests failed; want at most %d", failed.Load(), asked.Load(), most)
			}
			down.Store(true)
			whileDown.Store(0)
			clients(2*rounds, new(atomic.Int64))
			mostAsked := 40 + 2*rounds*5
			if !rig.Long() { // a busy machine notices late that the registry is down
				mostAsked = 4 * 2 * rounds * perSecond
			}
			if n := whileDown.Load(); n > int64(mostAsked) {
				t.Errorf("%d questions in the %d seconds that it was down", n, 2*rounds)
			}
			group.Wait()
			down.Store(false)
			back := time.Now()
			m := module{host, "n0", "back", "aws"}
			if !eventually(func() bool { return p.ask(http.MethodGet, m.path("versions")).Status == http.StatusOK }) || rig.Late(time.Since(back), 5*time.Second) {
				t.Errorf("no request has succeeded %v after it was back", time.Since(back))
			}
			well := func() bool {
				after.Store(0)
				clients(1, &after)
				group.Wait()
				return after.Load() == 0
			}
			if !well() && (rig.Long() || !eventually(well)) { // a busy machine may answer some of the first requests late
				t.Errorf("%d requests failed after it was back", after.Load())
			}
		})
	}
}
