package slots_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/slots"
	"github.com/modproxy/modproxy/test/rig"
)

// asks waits n times concurrently for a slot of the named owner in ctx, holds each for a minute, and counts in served.
func asks(t *testing.T, queue *slots.Queue, ctx context.Context, name string, n int, served *atomic.Int64) {
	for range n {
		go func() {
			slot, err := queue.Await(ctx, name, modproxy.BroughtForward(ctx))
			if err != nil {
				return
			}
			served.Add(1)
			time.Sleep(time.Minute)
			slot.Give()
		}()
		synctest.Wait()
	}
}

// Background requests leave slots free, and come after other requests, of any owner.
func TestBackgroundComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(16, 16, 0, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		defer time.Sleep(time.Hour)
		defer cancel()
		var behind, ahead atomic.Int64
		asks(t, queue, modproxy.InBackground(ctx), "a", 20, &behind)
		if behind.Load() != 12 || queue.Waiting(true) != 8 || queue.Waiting(false) != 0 {
			t.Errorf("%d in the background have a slot, %d wait", behind.Load(), queue.Waiting(true))
		}
		asks(t, queue, ctx, "a", 5, &ahead)
		asks(t, queue, ctx, "b", 4, &ahead)
		asks(t, queue, modproxy.InBackground(ctx), "c", 10, &behind)
		if ahead.Load() != 4 || queue.Waiting(false) != 5 {
			t.Errorf("%d others have a slot, %d wait", ahead.Load(), queue.Waiting(false))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if ahead.Load() != 9 || behind.Load() != 12+7 {
			t.Errorf("after those in front: %d, and %d in the background; want 9, and 7 more", ahead.Load(), behind.Load()-12)
		}
	})
}

// A request that is brought forward comes before background requests, and may use slots that they leave free.
func TestBroughtForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(8, 8, 0, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		defer time.Sleep(time.Hour)
		defer cancel()
		var behind, first, second atomic.Int64
		asks(t, queue, modproxy.InBackground(ctx), "a", 30, &behind)
		wanted, gone := modproxy.InBackground(ctx), modproxy.InBackground(ctx)
		gone, leave := context.WithCancel(gone)
		asks(t, queue, wanted, "a", 3, &first)
		asks(t, queue, gone, "b", 1, &second)
		if behind.Load() != 6 || first.Load() != 0 {
			t.Fatalf("%d and %d have a slot", behind.Load(), first.Load())
		}
		leave()
		modproxy.BringForward(wanted)
		synctest.Wait()
		if first.Load() != 2 || queue.Waiting(false) != 1 {
			t.Errorf("%d of what was brought forward have a slot, %d wait", first.Load(), queue.Waiting(false))
		}
		modproxy.BringForward(gone)
		time.Sleep(time.Minute)
		synctest.Wait()
		if first.Load() != 3 || second.Load() != 0 || behind.Load() != 6+5 {
			t.Errorf("%d, %d, %d", first.Load(), second.Load(), behind.Load())
		}
	})
}

// An owner with many background requests has slots left for its other requests.
func TestBackgroundLeavesItsOwnersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(16, 12, 0, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		defer time.Sleep(time.Hour)
		defer cancel()
		var behind, ahead atomic.Int64
		asks(t, queue, modproxy.InBackground(ctx), "a", 20, &behind)
		asks(t, queue, ctx, "a", 5, &ahead)
		if behind.Load() != 9 || ahead.Load() != 3 {
			t.Errorf("%d in the background and %d others have a slot", behind.Load(), ahead.Load())
		}
	})
}

// Even if other requests always wait, one of eight slots goes to the background.
func TestBackgroundIsNotStarved(t *testing.T) {
	numbers := []int{1, 4}
	if rig.Long() {
		numbers = append(numbers, 16)
	}
	for _, n := range numbers {
		synctest.Test(t, func(t *testing.T) {
			queue := slots.New(n, n, 0, 1000)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var counted struct{ ahead, behind atomic.Int64 }
			work := func(ctx context.Context, name string, served *atomic.Int64) {
				for {
					slot, err := queue.Await(ctx, name, modproxy.BroughtForward(ctx))
					if err != nil {
						return
					}
					time.Sleep(10 * time.Millisecond)
					slot.Give()
					served.Add(1)
				}
			}
			for i := range 5 * n {
				go work(ctx, fmt.Sprint("client", i%5), &counted.ahead)
				go work(modproxy.InBackground(ctx), "run", &counted.behind)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			ahead, behind := int(counted.ahead.Load()), int(counted.behind.Load())
			if all := ahead + behind; all < 6000*n-2*n || behind > all/8+n || behind < all/8*9/10 && n == 1 || behind < all/40 {
				t.Errorf("of %d queue at a time %d were given, %d of them to the background", n, all, behind)
			}
		})
	}
}

// If the queue is full, background requests are removed first.
func TestBackgroundIsSentAwayFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(1, 1, 0, 4)
		if err := queue.Take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, 10)
		wait := func(ctx context.Context, name string) {
			go func() {
				_, err := queue.Await(ctx, name, modproxy.BroughtForward(ctx))
				errs <- err
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		wait(ctx, "a")
		wait(ctx, "a")
		wait(ctx, "a")
		wait(modproxy.InBackground(ctx), "b")
		wait(ctx, "c")
		if len(errs) != 1 {
			t.Fatalf("%d were sent away", len(errs))
		}
		if err := <-errs; !errors.Is(err, slots.ErrCrowded) {
			t.Error(err)
		}
		wait(modproxy.InBackground(ctx), "a")
		if err := <-errs; !errors.Is(err, slots.ErrCrowded) || queue.Waiting(false) != 4 {
			t.Errorf("one more in the background: %v; %d wait", err, queue.Waiting(false))
		}
		cancel(errors.New("the end"))
		synctest.Wait()
	})
}

// An owner whose only request was removed is forgotten.
func TestSentAwayIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := slots.New(1, 1, 0, 1)
		slot, err := queue.Await(t.Context(), "one", modproxy.BroughtForward(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		sent := make(chan error)
		go func() {
			_, err := queue.Await(t.Context(), "two", modproxy.BroughtForward(modproxy.InBackground(t.Context())))
			sent <- err
		}()
		synctest.Wait()
		go func() {
			slot, err := queue.Await(t.Context(), "one", modproxy.BroughtForward(t.Context()))
			if err != nil {
				t.Error(err)
				return
			}
			slot.Give()
		}()
		if err := <-sent; !errors.Is(err, slots.ErrCrowded) {
			t.Errorf("error %v", err)
		}
		slot.Give()
		synctest.Wait()
		if n := queue.Known(); n != 0 {
			t.Errorf("%d owners are known that want nothing", n)
		}
	})
}
