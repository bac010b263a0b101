package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RoomFor returns the bytes that packages may use on the file system of a data directory: the free ones, and those of the packages
// that are stored or in quarantine. The directory need not exist. The error is [errors.ErrUnsupported] if the system does not report
// free bytes.
func RoomFor(dir string) (bytes int64, err error) {
	exists, err := filepath.Abs(dir)
	if err != nil {
		return 0, err
	}
	for filepath.Dir(exists) != exists {
		if _, err := os.Stat(exists); err == nil || !errors.Is(err, fs.ErrNotExist) {
			break
		}
		exists = filepath.Dir(exists)
	}
	use, ok := FileSystemOf(exists)
	if !ok {
		return 0, fmt.Errorf("%s: free bytes: %w", exists, errors.ErrUnsupported)
	}
	bytes = use.Free
	for _, name := range []string{blobsName, quarantineName} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(_ string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				bytes += info.Size()
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a running proxy may remove files meanwhile
			return 0, err
		}
	}
	return bytes, nil
}
