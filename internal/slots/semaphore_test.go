package slots_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/modproxy/modproxy/internal/slots"
)

// A semaphore has as many slots as it was made with. A request waits until a slot is given back, or its context ends.
func TestSemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slots.NewSemaphore(2)
		first, err := s.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, ok := s.Try()
		if !ok {
			t.Fatal("the second slot is not free")
		}
		if _, ok := s.Try(); ok {
			t.Fatal("there is a third slot")
		}
		if n := s.Taken(); n != 2 {
			t.Errorf("%d slots are taken; want 2", n)
		}
		ended, cancel := context.WithCancelCause(t.Context())
		why := errors.New("ended")
		failed, taken := make(chan error, 1), make(chan func(), 1)
		go func() {
			_, err := s.Take(ended)
			failed <- err
		}()
		synctest.Wait()
		cancel(why)
		if err := <-failed; err != why {
			t.Errorf("error %v; want the cause of the context", err)
		}
		go func() {
			give, err := s.Take(t.Context())
			if err != nil {
				t.Error(err)
			}
			taken <- give
		}()
		synctest.Wait()
		if len(taken) > 0 {
			t.Fatal("a request did not wait for a slot")
		}
		first()
		third := <-taken
		second()
		if _, err := s.Take(ended); err != why {
			t.Errorf("a slot for a request that has ended: error %v", err)
		}
		third()
		for range 2 {
			if _, ok := s.Try(); !ok {
				t.Error("a slot was not given back")
			}
		}
	})
}
