package cache

import (
	"errors"

	"github.com/modproxy/modproxy/store"
)

// putAgain calls put, and calls it again after a [store.ErrConflict]: another process has changed the record. It calls put at most
// maxTries times, and returns its last error. Between two calls it calls reread, unless that is nil. If reread returns done or an
// error, putAgain returns that error.
func putAgain(put func() error, reread func() (done bool, err error)) error {
	for try := 1; ; try++ {
		err := put()
		if !errors.Is(err, store.ErrConflict) || try == maxTries {
			return err
		}
		if reread == nil {
			continue
		}
		if done, err := reread(); done || err != nil {
			return err
		}
	}
}
