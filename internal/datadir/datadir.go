package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// Hint is the hint for the user of the command line if the data directory is missing.
const Hint = "--data names the data directory, or --config the configuration that does"

// Check returns nil if dir is a data directory. It creates none, because the name may be a mistake.
func Check(dir string) error {
	if err := CheckDir(dir, "data directory"); err != nil {
		return err
	}
	return usable(dir)
}

// CheckDir returns nil if dir is a directory. The message of its error calls the directory by the name what.
func CheckDir(dir, what string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s at %s", what, dir)
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	case err == nil:
		return nil
	}
	return hint.With(err, Hint)
}

// Create creates the data directory if it does not exist.
func Create(dir string) error {
	if err := create(dir); err != nil {
		return err
	}
	return interrupted(dir)
}

// usable returns an error if modproxy must not use the data directory.
func usable(dir string) error {
	if err := refuseLinks(dir); err != nil {
		return err
	}
	return interrupted(dir)
}

func create(dir string) error {
	if err := (durable.Disk{}).MkdirAll(dir); err != nil {
		return hint.With(fmt.Errorf("data directory %s: %w", dir, err), "--data takes another directory")
	}
	return refuseLinks(dir)
}

// refuseLinks returns an error if a directory or file of modproxy's in the data directory is a symbolic link. The user that runs
// modproxy need not trust the owner of the data directory. The data directory itself may be a link.
func refuseLinks(dir string) error {
	names := []string{
		"quarantine", "tmp", "scratch", "blobs", "blobs/v1", "blobs/v1/sha256",
		"index.db", "layout.json", "ledger", "auth", lockName, socketName, restoringName,
	}
	for _, pattern := range []string{"ledger/*", "auth/*"} {
		found, _ := fs.Glob(os.DirFS(dir), pattern) // the reader of an unreadable directory reports it
		names = append(names, found...)
	}
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return hint.With(fmt.Errorf("%s: it is a symbolic link, and modproxy follows none in its data directory", path),
				"put there what it leads to; the data directory itself may be a link")
		}
	}
	return nil
}
