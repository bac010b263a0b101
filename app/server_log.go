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
	maxServerLog   = 6   // entries in that time
	maxServerText  = 500 // bytes of one
)

// serverLog logs what net/http says about connections, such as TLS handshakes that failed: some of it, as anybody can cause it.
type serverLog struct {
	log *zap.Logger

	mu    sync.Mutex
	begun time.Time // when entries were first counted
	count int       // since begun
	left  int       // that were not logged, since the last one that was
}

// Write logs one message, or counts it.
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
