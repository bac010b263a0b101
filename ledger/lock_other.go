//go:build !unix || solaris || aix

package ledger

import (
	"errors"
	"os"
)

// lockFile refuses: two processes that append to one log would damage it.
func lockFile(*os.File) error { return errors.ErrUnsupported }
