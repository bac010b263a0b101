//go:build !unix || solaris || aix

package filelock

import (
	"errors"
	"os"
)

func try(*os.File, bool) error { return errors.ErrUnsupported }
