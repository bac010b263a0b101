package httpx

import (
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
)

// The large documents that are sent have a bound. A document counts once for any number of clients. Small documents do not count.
func TestLargeDocumentsAreBounded(t *testing.T) {
	large := func() *modproxy.Versions { return &modproxy.Versions{Document: make([]byte, maxDocuments/4)} }
	d := NewDocuments()
	one := large()
	same := *one // as a stale answer is
	var ends []func()
	for _, v := range []*modproxy.Versions{one, one, &same, large(), large(), large()} {
		end, err := d.Hold(v.Document, len(v.Compressed))
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	if _, err := d.Hold(large().Document, 0); !errors.Is(err, errDocuments) || wait(err) <= 0 {
		t.Errorf("one too many: %v", err)
	}
	if _, err := d.Hold(one.Document, 0); err != nil {
		t.Errorf("one that is being sent: %v", err)
	} else {
		ends[0]()
	}
	small := &modproxy.Versions{Document: make([]byte, largeDocument-1)}
	for range 10 * maxDocuments / largeDocument {
		if _, err := d.Hold(small.Document, 0); err != nil {
			t.Fatal(err)
		}
	}
	ends[3]()
	end, err := d.Hold(large().Document, 0)
	if err != nil {
		t.Fatalf("when one was sent: %v", err)
	}
	end()
	for _, end := range append(ends[:3], ends[4:]...) {
		end()
	}
	if d.used != 0 || len(d.sent) != 0 {
		t.Errorf("when all were sent, %d bytes of %d documents are left", d.used, len(d.sent))
	}
}
