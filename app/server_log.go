package app

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	serverLogEvery = time.Minute
	maxServerLog   = 6   // maximum number of entries in serverLogEvery
	maxServerText  = 500 // maximum length of an entry, in bytes
)

// A serverLog logs messages of net/http about connections, such as failed TLS handshakes. It logs only some of them, because
// anybody can cause them.
type serverLog struct {
	log *zap.Logger

	mu    sync.Mutex
	begun time.Time // when count began
	count int       // of messages since begun
	left  int       // the number of messages without an entry since the last entry
}

// Write logs one message, or only counts it.
func (s *serverLog) Write(message []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.begun) >= serverLogEvery {
		s.begun, s.count = now, 0
	}
	if s.count++; s.count > maxServerLog {
		s.left++
		return len(message), nil
	}
	text := bytes.TrimSpace(message)
	failure := errors.New(string(text[:min(len(text), maxServerText)]))
	logEvent(s.log, "connection_failed", failure, unless(s.left == 0, zap.Int("others", s.left)))
	s.left = 0
	return len(message), nil
}
