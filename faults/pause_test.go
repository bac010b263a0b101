//go:build linux

package faults_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// modproxy stands still for a while, as when its machine is moved: everybody gets
// an answer afterwards, nothing is fetched twice, and nobody else gets at its data.
func TestPause(t *testing.T) {
	pauses := []time.Duration{5 * time.Second}
	if long() {
		pauses = []time.Duration{5 * time.Second, 12 * time.Second, 20 * time.Second, 30 * time.Second}
	}
	var fetched sync.Map
	r := newRigAt(t, os.Getenv(programVariable), filepath.Join(t.TempDir(), "data"), http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasPrefix(q.URL.Path, "/archives/") {
			n, _ := fetched.LoadOrStore(q.URL.Path, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		}
		answer(w, q)
	}))
	r.client.Timeout = time.Minute
	r.start()
	r.ready()
	for _, pause := range pauses {
		versions := modulePath("m1") + "/versions"
		r.ask("GET", versions)
		endLoad, endDrift := r.load(8), r.loadDrift()
		time.Sleep(500 * time.Millisecond)
		syscall.Kill(r.server.Process.Pid, syscall.SIGSTOP)
		started := time.Now()
		asking := make(chan answered)
		go func() {
			asking <- r.ask("GET", versions)
		}()
		r.refuses("another modproxy has the data directory: process ")
		time.Sleep(pause - time.Since(started))
		before := r.acked()
		syscall.Kill(r.server.Process.Pid, syscall.SIGCONT)
		if took := r.ready(); took > 10*time.Second {
			t.Errorf("after a pause of %v it was ready after %v", pause, took)
		}
		if a := <-asking; a.status != http.StatusOK {
			t.Errorf("who asked in a pause of %v was answered %v", pause, a)
		}
		for waited := time.Now(); r.acked() < before+20; time.Sleep(5 * time.Millisecond) {
			if time.Since(waited) > 30*time.Second {
				t.Fatalf("after a pause of %v %d packages were acknowledged: %v", pause, r.acked()-before, r.counts())
			}
		}
		endLoad()
		endDrift()
	}
	r.stop()
	fetched.Range(func(path, n any) bool {
		if n := n.(*atomic.Int64).Load(); n > 1 {
			t.Errorf("%s was fetched %d times", path, n)
		}
		return true
	})
	r.saidNothingWrong()
	r.afterwards()
	t.Logf("%d pauses; %d packages and %d drifts acknowledged and there", len(pauses), r.acked(), len(r.drifts))
}
