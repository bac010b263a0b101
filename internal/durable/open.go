package durable

import (
	"errors"
	"io/fs"
	"os"
)

// ErrNotRegular is wrapped by the errors of [OpenRegular].
var ErrNotRegular = errors.New("not a regular file")

// OpenRegular is os.OpenFile with mode 0600 for a regular file, or a link to one. It refuses anything else, and
// does not wait for the other end of a pipe. With [NoFollow] in flag it refuses symbolic links, too: the owner
// of the directory need not be trusted by the user who runs the program.
func OpenRegular(name string, flag int) (*os.File, error) {
	f, err := os.OpenFile(name, flag|noWait, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
