package disk

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/internal/durable"
)

// health is whether the file system takes what is to be kept. What is kept is read all
// the same.
type health struct {
	mu      sync.Mutex
	final   error     // of a flush, or why nothing is ever written
	trouble error     // another error of the storage, until something was written again
	tried   time.Time // when something was last written, or could not be
}

// troublePause is how long nothing is written after the storage failed.
const troublePause = 5 * time.Second

// fail is an error from which only another start recovers.
func (h *health) fail(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.final == nil {
		h.final = fmt.Errorf("%w; modproxy must be restarted", err)
	}
	return h.final
}

// note is told what became of a write. A full disk, and errors that are not about the
// file system, change nothing.
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

// writable returns nil when something may be written. In trouble it is so now and then.
func (h *health) writable() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.final != nil:
		return h.final
	case h.trouble != nil && time.Since(h.tried) < troublePause:
		return fmt.Errorf("the storage is in trouble: %w", h.trouble)
	case h.trouble != nil:
		h.tried = time.Now() // this caller tries
	}
	return nil
}

// Ready returns why nothing can be kept now, or nil. After an error of the file system
// it writes a file now and then to see whether that has passed. A flush that failed
// does not pass before the next Open.
func (d *Directory) Ready() error {
	done, err := d.use()
	if err != nil {
		return err
	}
	defer done()
	if err := d.health.writable(); err != nil {
		return err
	}
	d.health.mu.Lock()
	trouble := d.health.trouble
	d.health.mu.Unlock()
	if trouble == nil {
		return nil
	}
	return d.probe()
}

// Doubt tells the directory of an error that was met on the same file system. After one
// like those that stop writing here nothing is written until that is possible again.
func (d *Directory) Doubt(err error) {
	if err != nil {
		d.health.note(err)
	}
}

// note tells health of an error of writing files. One of a flush is final: nobody knows
// what is on the disk, and the system may say so only once.
func (d *Directory) note(err error) error {
	if errors.Is(err, durable.ErrSync) {
		return d.health.fail(err)
	}
	d.health.note(err)
	return err
}

// probe writes a file as others are written.
func (d *Directory) probe() error {
	temp, err := d.disk.WriteTemp(d.path(tempName), tempBase, func(f *os.File) error {
		_, err := f.Write(make([]byte, 4096))
		return err
	})
	if err == nil {
		err = os.Remove(temp)
	}
	return d.note(err)
}
