//go:build linux

package faults_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

// modproxy stops for a while, as when its machine is migrated. All clients get answers afterwards, nothing is fetched twice, and no other
// process uses its data.
func TestPause(t *testing.T) {
	pauses := []time.Duration{5 * time.Second}
	if rig.Long() {
		pauses = []time.Duration{5 * time.Second, 12 * time.Second, 20 * time.Second, 30 * time.Second}
	}
	var mu sync.Mutex
	fetched := map[string][]time.Time{}
	r := newProxy(t, with{registry: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/archives/") {
			mu.Lock()
			fetched[q.URL.Path] = append(fetched[q.URL.Path], time.Now())
			mu.Unlock()
		}
		answer(w, q)
	})})
	r.client.Timeout = time.Minute
	const patient = 30 * time.Second // longer than the wait for an upstream that does not answer, after which the request is repeated
	var stopped []time.Time
	r.start()
	r.ready()
	for _, pause := range pauses {
		versions := modulePath("m1") + "/versions"
		r.ask("GET", versions)
		endLoad, endDrift := r.load(8), r.loadDrift()
		time.Sleep(500 * time.Millisecond)
		syscall.Kill(r.server.ID(), syscall.SIGSTOP)
		started := time.Now()
		stopped = append(stopped, started)
		asking := make(chan rig.Answer)
		go func() {
			asking <- r.ask("GET", versions)
		}()
		r.refuses("another modproxy has the data directory: process ")
		time.Sleep(pause - time.Since(started))
		before := r.acked()
		syscall.Kill(r.server.ID(), syscall.SIGCONT)
		if took := r.ready(); rig.Late(took, 10*time.Second) {
			t.Errorf("after a pause of %v it was ready after %v", pause, took)
		}
		if a := <-asking; a.Status != http.StatusOK {
			t.Errorf("who asked in a pause of %v was answered %v", pause, a)
		}
		for waited := time.Now(); r.acked() < before+20; time.Sleep(5 * time.Millisecond) {
			if time.Since(waited) > 3*time.Minute {
				t.Fatalf("after a pause of %v %d packages were acknowledged: %v", pause, r.acked()-before, r.counts())
			}
		}
		endLoad()
		endDrift()
	}
	r.stop()
	again := 0
	mu.Lock() // the registry may still record the last request
	for path, at := range fetched {
		cut := func(began time.Time) bool { // bytes sent shortly before arrive shortly after
			return at[0].Before(began.Add(time.Second)) && at[1].After(began.Add(patient)) && at[1].Sub(at[0]) > patient
		}
		switch {
		case len(at) == 1:
		case len(at) == 2 && slices.ContainsFunc(stopped, cut):
			again++
		default:
			t.Errorf("%s was fetched at %v", path, at)
		}
	}
	mu.Unlock()
	r.saidNothingWrong()
	r.afterwards()
	t.Logf("%d pauses; %d packages and %d drifts acknowledged and there; %d fetches were cut by a pause and begun again",
		len(pauses), r.acked(), len(r.drifts), again)
}
