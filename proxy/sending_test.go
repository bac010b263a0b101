package proxy

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
)

// Large documents that are being sent have a bound, in which one counts once
// however many are sent it, and which small ones do not touch.
func TestLargeAnswersThatAreBeingSent(t *testing.T) {
	large := func() *modproxy.Versions { return &modproxy.Versions{Document: make([]byte, maxSending/4)} }
	var s sending
	one := large()
	same := *one // as a stale answer is
	var ends []func()
	for _, v := range []*modproxy.Versions{one, one, &same, large(), large(), large()} {
		end, err := s.begin(v)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, err := s.begin(large()); !errors.Is(err, errSending) || wait(err) <= 0 {
		t.Errorf("one too many: %v", err)
	}
	if _, err := s.begin(one); err != nil {
		t.Errorf("one that is being sent: %v", err)
	} else {
		ends[0]()
	}
	small := &modproxy.Versions{Document: make([]byte, largeAnswer-1)}
	for range 10 * maxSending / largeAnswer {
		if _, err := s.begin(small); err != nil {
			t.Fatal(err)
		}
	}
	ends[3]()
	end, err := s.begin(large())
	if err != nil {
		t.Fatalf("when one was sent: %v", err)
	}
	end()
	for _, end := range append(ends[:3], ends[4:]...) {
		end()
	}
	if s.used != 0 || len(s.to) != 0 {
		t.Errorf("when all were sent, %d bytes of %d documents are left", s.used, len(s.to))
	}
}
