package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// health is whether the storage takes what is to be kept. What is kept is read
// all the same.
type health struct {
	mu      sync.Mutex
	final   error     // of a flush, or why nothing is ever written; for good
	trouble error     // another error of the storage, until something was written again
	tried   time.Time // when something was last written, or could not be
}

// troublePause is how long nothing is written after the storage failed.
const troublePause = 5 * time.Second

// errFlush: nobody knows what of it is on the disk, and the system may say so only
// once. Reading it back proves nothing.
var errFlush = errors.New("a flush to the disk failed")

// fail is an error from which only another start recovers.
func (h *health) fail(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.final == nil {
		h.final = fmt.Errorf("%w; modproxy must be restarted", err)
	}
	return h.final
}

// note is what became of writing something. Errors that are not about the storage
// itself, and a full one, change nothing.
func (h *health) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.trouble = nil
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS):
		h.trouble, h.tried = err, time.Now()
	}
}

// writable is nil when something may be written. While the storage is in trouble
// one may try now and then.
func (h *health) writable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.final != nil:
		return h.final
	case h.trouble != nil && time.Since(h.tried) < troublePause:
		return fmt.Errorf("the storage is in trouble: %w", h.trouble)
	case h.trouble != nil:
		h.tried = time.Now() // whoever comes now tries
	}
	return nil
}

// Ready is nil while what is to be kept can be kept, else what hinders it. After
// an error of the storage it writes a file now and then to see whether that has
// passed; a flush that failed does not pass before the next Open.
func (s *Store) Ready() error {
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	if err := s.health.writable(); err != nil {
		return err
	}
	s.health.mu.Lock()
	trouble := s.health.trouble
	s.health.mu.Unlock()
	if trouble == nil {
		return nil
	}
	return s.probe()
}

// Doubt tells the store of an error that was met beside it on the same file system:
// if it is one of the storage, nothing is written until that can be.
func (s *Store) Doubt(err error) {
	if err != nil {
		s.health.note(err)
	}
}

// probe writes a file as others are written.
func (s *Store) probe() error {
	temp, err := s.writeTemp(0o600, bytes.NewReader(make([]byte, 4096)))
	if err == nil {
		err = os.Remove(temp)
	}
	s.health.note(err)
	return err
}
