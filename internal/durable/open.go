package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular is wrapped by the errors of [OpenRegular].
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular is os.OpenFile with mode 0600 for a regular file, or a link to one. It refuses everything else, and does
// not wait for the other end of a pipe. With [NoFollow] in flag it also refuses symbolic links, so that the user of the
// program need not trust the owner of the directory.
func OpenRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|noWait, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		return f, nil
	} else if err == nil {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	return nil, errors.Join(err, f.Close())
}

// ReadRegular reads a file of at most limit bytes, opened with [OpenRegular].
func ReadRegular(name string, limit int64) ([]byte, error) {
	f, err := OpenRegular(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var text []byte
	size := info.Size()
	if size <= limit { // the file may grow
		text, err = io.ReadAll(io.LimitReader(f, limit+1))
		size = int64(len(text))
	}
	if err == nil && size > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", name, limit)
	}
	return text, err
}
