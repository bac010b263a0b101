//go:build !unix || solaris || aix

package filelock

import (
	"errors"
	"fmt"
	"os"
)

func try(f *os.File, _ bool) error {
	return fmt.Errorf("lock %s: %w", f.Name(), errors.ErrUnsupported)
}
