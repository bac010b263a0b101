package slots_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/test/rig"
)

// An owner that wants all slots leaves the others what they need, up to their share.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(16, 16, 0, 1000)
		length := 15 * time.Second
		if rig.Long() {
			length = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), length)
		defer cancel()
		var mu sync.Mutex
		served := map[string]int{}
		began := uint64(0)
		work := func(name string, id uint64) {
			// Turns of unequal length: if all ended in the same instant, the scheduler would decide who takes the next ones.
			random := rand.New(rand.NewPCG(1, id))
			for queue.Take(ctx, name) == nil {
				time.Sleep(9*time.Millisecond + time.Duration(random.Int64N(int64(2*time.Millisecond))))
				queue.Give(name)
				mu.Lock()
				served[name]++
				mu.Unlock()
			}
		}
		start := func(name string) { began++; go work(name, began) }
		for range 900 {
			start("greedy")
		}
		for range 8 {
			start("ordinary")
		}
		start("modest")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for name, want := range map[string]int{"greedy": 7, "ordinary": 7, "modest": 1} {
			if got, least := served[name], int(length/(10*time.Millisecond))*want; got < least*9/10 {
				t.Errorf("%s was served %d times; want about %d", name, got, least)
			}
		}
	})
}

// The share limits the slots of one owner. The spare slots go to owners without a slot.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(8, 6, 1, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		got := map[string]int{}
		var mu sync.Mutex
		for _, name := range []string{"a", "b", "c", "d"} {
			for range 20 {
				go func() {
					if queue.Take(ctx, name) == nil {
						mu.Lock()
						got[name]++
						mu.Unlock()
					}
				}()
			}
			synctest.Wait()
		}
		if want := "map[a:6 b:1 c:1]"; fmt.Sprint(got) != want {
			t.Errorf("%v; want %s", got, want)
		}
		queue.Give("a")
		synctest.Wait()
		if got["d"] != 1 {
			t.Errorf("a slot that is given goes to %v; want d, which has none", got)
		}
	})
}

// If the queue is full, the owner with the most waiting requests loses one.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(1, 1, 0, 10)
		if err := queue.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		away := make(chan error, 100)
		for range 10 {
			go func() { away <- queue.Take(t.Context(), "a") }()
		}
		synctest.Wait()
		if err := queue.Take(t.Context(), "a"); !errors.Is(err, slots.ErrCrowded) {
			t.Errorf("one more: %v", err)
		}
		if len(away) > 0 {
			t.Errorf("one that waited: %v", <-away)
		}
		other := make(chan error, 1)
		go func() { other <- queue.Take(t.Context(), "b") }()
		if err := <-away; !errors.Is(err, slots.ErrCrowded) {
			t.Errorf("one of those of whom most wait: %v", err)
		}
		queue.Give("a")
		if err := <-other; err != nil {
			t.Errorf("another: %v", err)
		}
		queue.Give("b")
		for range 9 {
			if err := <-away; err != nil {
				t.Error(err)
			}
			queue.Give("a")
		}
		gone, cancel := context.WithCancelCause(t.Context())
		if err := queue.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		why := errors.New("gone")
		cancel(why)
		if err := queue.Take(gone, "a"); err != why || queue.Waiting(true) != 0 {
			t.Errorf("one that went: %v; %d wait", err, queue.Waiting(true))
		}
	})
}

// Others may use a paused slot. Its owner gets it back at once.
func TestPausedTurns(t *testing.T) {
	queue := slots.New(1, 1, 0, 10)
	first, err := queue.Await(t.Context(), "one", modproxy.BroughtForward(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if queue.Try("two") {
		t.Fatal("there was a second slot")
	}
	first.Pause()
	first.Pause()
	second, err := queue.Await(t.Context(), "two", modproxy.BroughtForward(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	first.Resume()
	first.Resume()
	if queue.Try("three") {
		t.Fatal("there was a third slot")
	}
	first.Give()
	if queue.Try("three") {
		t.Fatal("the second slot was given twice")
	}
	second.Pause()
	second.Give()
	if !queue.Try("three") {
		t.Fatal("no slot is left")
	}
	if queue.Try("four") {
		t.Fatal("there are more queue than before")
	}
}

// The number of an owner's paused slots is limited.
func TestPausedTurnsAreBounded(t *testing.T) {
	queue := slots.New(2, 2, 0, 10)
	n := 0
	for ; n < 1000; n++ {
		if !queue.Try("one") {
			break
		}
		queue.Give("one")
		slot, err := queue.Await(t.Context(), "one", modproxy.BroughtForward(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		slot.Pause()
	}
	if n < 10 || n > 20 {
		t.Errorf("%d queue were paused or taken; want some for each, and not any number", n)
	}
}
