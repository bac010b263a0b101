//go:build linux

package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

// modproxy is killed at any moment since its start: no package that a client received is lost, nothing is damaged, and it starts again.
func TestKill(t *testing.T) {
	r := newProxy(t, with{})
	end := r.load(8)
	defer end()
	var slowest time.Duration
	n := rounds(10, 300)
	for round := range n {
		r.start()
		if round%4 != 0 {
			slowest = max(slowest, r.ready())
		}
		// A busy machine serves few requests in some tenths of a second: it gets as long as starts take.
		time.Sleep(time.Duration(rand.Int64N(int64(max(400*time.Millisecond, 2*slowest)))))
		r.kill()
		if err := r.check(); err != nil {
			t.Fatalf("round %d: %v", round+1, err)
		}
	}
	end()
	if r.acked() < n/4 {
		t.Errorf("only %d packages in %d rounds: the load is none", r.acked(), n)
	}
	r.start("--offline")
	slowest = max(slowest, r.ready())
	for path := range r.acks {
		if err := r.get(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	r.stop()
	r.residue()
	t.Logf("%d kills, %d packages acknowledged and there, ready after %v at most; answers by status: %v", n, r.acked(), slowest, r.counts())
}

// modproxy is killed at any moment of its first start, which creates the data directory. Readers find no damage, and the next start
// completes it.
func TestKillInFirstStart(t *testing.T) {
	for round := range rounds(6, 300) {
		r := newProxy(t, with{})
		r.start()
		time.Sleep(time.Duration(rand.Int64N(int64(120 * time.Millisecond))))
		r.kill()
		if err := r.check(); err != nil {
			t.Errorf("round %d: %v", round+1, err)
		}
		r.start()
		r.ready()
		r.stop()
	}
}
