package hedge_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/hedge"
)

var errPasses, errFinal = errors.New("passes"), errors.New("final")

// server answers the sends of a request with the answers in the list, in order. Further sends receive the last answer.
type server struct {
	answers []answer

	mu             sync.Mutex
	sent, now, top int
	dropped        []int
}

// answer comes after a duration, or never if that is zero.
type answer struct {
	after time.Duration
	err   error
}

func (s *server) request(may func() bool) hedge.Request[int] {
	return hedge.Request[int]{
		Send: func(ctx context.Context, late func()) (int, error) {
			time.Sleep(time.Nanosecond) // the send that this one replaced ends
			s.mu.Lock()
			n := s.sent
			s.sent++
			s.now++
			s.top = max(s.top, s.now)
			s.mu.Unlock()
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.now--
			}()
			timer := time.AfterFunc(hedge.Late(), late)
			defer timer.Stop()
			a := s.answers[min(n, len(s.answers)-1)]
			comes := make(<-chan time.Time)
			if a.after > 0 {
				comes = time.After(a.after)
			}
			select {
			case <-comes:
				return n + 1, a.err
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		},
		May: may,
		Failed: func(err error) (time.Duration, bool) {
			if err == errPasses {
				return -1, false
			}
			return 0, err == errFinal
		},
		Drop: func(n int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if n > 0 {
				s.dropped = append(s.dropped, n)
			}
		},
	}
}

const never, minute = 0, time.Minute

// A late request is sent again beside the first send, and the first answer counts, from either send.
func TestDo(t *testing.T) {
	for name, c := range map[string]struct {
		answers []answer
		want    int // the number of the send that is answered
		err     error
		sent    int
		within  time.Duration
	}{
		"at once":                           {[]answer{{1, nil}}, 1, nil, 1, time.Second},
		"fails at once":                     {[]answer{{1, errPasses}}, 1, errPasses, 1, time.Second},
		"hangs once":                        {[]answer{{never, nil}, {1, nil}}, 2, nil, 2, 2 * time.Second},
		"hangs twice":                       {[]answer{{never, nil}, {never, nil}, {1, nil}}, 3, nil, 3, 4 * time.Second},
		"hangs, and fails beside it once":   {[]answer{{never, nil}, {1, errPasses}, {1, nil}}, 3, nil, 3, 3 * time.Second},
		"hangs, fails and hangs beside it":  {[]answer{{never, nil}, {1, errPasses}, {never, nil}, {1, nil}}, 4, nil, 4, 5 * time.Second},
		"is slow":                           {[]answer{{minute, nil}, {never, nil}}, 1, nil, 5, 2 * minute},
		"is slow each time":                 {[]answer{{20 * time.Second, nil}}, 1, nil, 5, 21 * time.Second},
		"is slow, and fails beside it":      {[]answer{{minute, nil}, {1, errPasses}}, 1, nil, 5, 2 * minute},
		"fails late, and hangs beside it":   {[]answer{{2 * time.Second, errPasses}, {never, nil}, {1, nil}}, 3, nil, 3, 4 * time.Second},
		"fails late, and is slow beside it": {[]answer{{2 * time.Second, errPasses}, {2100 * time.Millisecond, nil}, {minute, nil}}, 2, nil, 3, 2 * minute},
		"hangs, and all others fail":        {[]answer{{minute, errPasses}, {1, errPasses}}, 1, errPasses, 5, 2 * minute},
		"hangs, and is refused beside it":   {[]answer{{never, nil}, {1, errFinal}}, 2, errFinal, 2, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s, began := &server{answers: c.answers}, time.Now()
				got, err := hedge.Do(ctx, s.request(func() bool { return true }))
				if took := time.Since(began); got != c.want || err != c.err || s.sent != c.sent || took > c.within {
					t.Errorf("answer %d, %v, of %d sends after %v; want %+v", got, err, s.sent, took, c)
				}
				if s.top > 2 {
					t.Errorf("%d sends at the same time", s.top)
				}
				synctest.Wait()
				if s.now != 0 {
					t.Errorf("%d sends go on", s.now)
				}
				cancel()
			})
		})
	}
}

// If May returns false, nothing is hedged, however late the answer is. A failed request may be sent again.
func TestNoHedging(t *testing.T) {
	for name, may := range map[string]func() bool{"never": nil, "not now": func() bool { return false }} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{answers: []answer{{minute, errors.New("again")}, {minute, nil}}}
			got, err := hedge.Do(t.Context(), s.request(may))
			if got != 2 || err != nil || s.sent != 2 || s.top != 1 {
				t.Errorf("%s: %d, %v after %d sends, %d at the same time", name, got, err, s.sent, s.top)
			}
		})
	}
}

// Every answer that Do does not return is dropped once, even if it comes too late.
func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{answers: []answer{{minute, errPasses}, {1, errPasses}}}
		if got, err := hedge.Do(t.Context(), s.request(func() bool { return true })); got != 1 || err != errPasses {
			t.Fatalf("%d, %v", got, err)
		}
		synctest.Wait()
		if slices.Sort(s.dropped); !slices.Equal(s.dropped, []int{2, 3, 4, 5}) {
			t.Errorf("dropped: %v; want 2 to 5", s.dropped)
		}
	})
}

// The end of the context ends all sends. A panic of a send is its error.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, gone)
		defer cancel()
		s := &server{answers: []answer{{never, nil}}}
		if _, err := hedge.Do(ctx, s.request(func() bool { return true })); err != gone {
			t.Errorf("%v; want %v", err, gone)
		}
		synctest.Wait()
		if s.now != 0 || s.sent != 2 {
			t.Errorf("%d of %d sends go on", s.now, s.sent)
		}
		r := s.request(nil)
		r.Send = func(context.Context, func()) (int, error) { panic("of one send") }
		r.Failed = func(error) (time.Duration, bool) { return -1, false }
		if _, err := hedge.Do(t.Context(), r); !errors.Is(err, modproxy.ErrUnavailable) {
			t.Errorf("after a panic: %v", err)
		}
	})
}

// Hedges are a fifth of the requests, plus a few.
func TestBudget(t *testing.T) {
	var b hedge.Budget
	hedges := 0
	for range 1000 {
		b.Count()
		for b.Take() {
			hedges++
		}
	}
	if hedges < 200 || hedges > 220 {
		t.Errorf("%d hedges of 1000 requests", hedges)
	}
}
