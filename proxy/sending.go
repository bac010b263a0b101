package proxy

import (
	"errors"
	"sync"
	"time"

	"github.com/modproxy/modproxy"
)

const (
	// The size from which a versions document counts while it is being sent.
	largeAnswer = 64 << 10
	// The bytes of such documents that are being sent, with their compressed forms.
	maxSending = 64 << 20
)

var errSending = errors.New("many large versions documents are being sent to other clients")

// sending bounds the memory of the versions documents that are being sent: a slow
// client holds one for as long as it takes, and many documents that are all large
// may come from one registry. One that several clients are sent counts once. The
// zero value is ready; its methods are safe for concurrent use.
type sending struct {
	mu   sync.Mutex
	used int64
	to   map[*byte]int // how many are being sent the document that begins there
}

// begin is to be called before v is sent, and end when it was; or it says when
// to come back.
func (s *sending) begin(v *modproxy.Versions) (end func(), err error) {
	size := int64(len(v.Document) + len(v.Compressed))
	if size < largeAnswer {
		return func() {}, nil
	}
	document := &v.Document[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to[document] == 0 {
		if s.used+size > maxSending {
			return nil, later(time.Second, errSending)
		}
		s.used += size
	}
	if s.to == nil {
		s.to = map[*byte]int{}
	}
	s.to[document]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.to[document]--; s.to[document] == 0 {
			delete(s.to, document)
			s.used -= size
		}
	}, nil
}
