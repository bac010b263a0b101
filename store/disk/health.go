package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/modproxy/modproxy/internal/durable"
)

// health reports whether something can be stored. Stored data is read all the same.
type health struct {
	mu      sync.Mutex
	final   error // of a flush, of a damaged index, or why nothing is ever written
	trouble error // another one of the file system, until something was written again
}

// note records the outcome of a write, and returns its error. An error of a flush is final: nobody knows what is
// on the disk, and the system may say so only once. Damage of the index is final: the next write could make it worse. A full
// disk changes nothing.
func (h *health) note(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case isIndexError(err):
		h.final = cmp.Or(h.final, err)
	case errors.Is(err, durable.ErrSync):
		if h.final == nil {
			h.final = fmt.Errorf("%w; modproxy must be restarted", err)
		}
		return h.final
	case err == nil, errors.Is(err, syscall.EIO), errors.Is(err, syscall.EROFS):
		h.trouble = err
	}
	return err
}

func (h *health) get() (final, trouble error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.final, h.trouble
}

// Ready returns why nothing can be kept now, or nil. After an error of the file system, but not of a flush, it writes
// a file to see whether that has passed.
func (d *Directory) Ready() error {
	done, err := d.change(context.Background())
	if err != nil {
		return err
	}
	defer done()
	if _, trouble := d.health.get(); trouble == nil {
		return nil
	}
	temp, err := d.disk.WriteTemp(d.path(tempName), tempBase, func(f *os.File) error {
		_, err := f.Write(make([]byte, 4096))
		return err
	})
	if err == nil {
		err = os.Remove(temp)
	}
	return d.health.note(err)
}

// Doubt tells the directory of an error on the same file system, so that [Directory.Ready] looks whether that has
// passed.
func (d *Directory) Doubt(err error) {
	if err != nil && !errors.Is(err, durable.ErrSync) {
		d.health.note(err)
	}
}
