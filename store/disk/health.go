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

// health records whether the directory can be changed. Stored data can be read in any state.
type health struct {
	mu      sync.Mutex
	final   error // of a flush, of a damaged index, or why nothing is ever written
	trouble error // last other error of the file system; nil after a successful write
}

// note records the result of a write, and returns its error. The error of a flush is final, because the state of the
// disk is unknown and the system may report it only once. Damage of the index is final, because the next write could
// make it worse. A full disk does not change the health.
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

// Ready returns why nothing can be stored at present, or nil. After an error of the file system other than a failed
// flush, it writes a file to find out whether writing works again.
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

// Doubt reports an error on the same file system to the directory, so that the next [Directory.Ready] tests it.
func (d *Directory) Doubt(err error) {
	if err != nil && !errors.Is(err, durable.ErrSync) {
		d.health.note(err)
	}
}
