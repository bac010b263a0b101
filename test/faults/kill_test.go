//go:build linux

package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

// modproxy is killed at any moment, from its start on: nothing that a client was
// given is lost, nothing is damaged, and it starts again.
func TestKill(t *testing.T) {
	r := newProxy(t, with{})
	end := r.load(8)
	defer end()
	var slowest time.Duration
	n := rounds(20, 300)
	// A machine that has much else to do serves few in a round: it is given more.
	for round := 0; round < n || r.acked() < n && round < 4*n; round++ {
		r.start()
		if round%4 != 0 {
			slowest = max(slowest, r.ready())
		}
		time.Sleep(time.Duration(rand.Int64N(int64(400 * time.Millisecond))))
		r.kill()
		if err := r.check(); err != nil {
			t.Fatalf("round %d: %v", round+1, err)
		}
	}
	end()
	if r.acked() < n {
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
