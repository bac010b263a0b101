package admin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/hint"
)

// DataHint says what to do where a directory is missing.
const DataHint = "--data names the data directory"

// HaveData returns nil if there is a data directory. A verb that looks into it does
// not make one: its name may be a mistake.
func HaveData(dir string) error {
	if err := HaveDir(dir, "data directory"); err != nil {
		return err
	}
	return refuseLinks(dir)
}

// HaveDir returns nil if dir is a directory. what is its name in the message.
func HaveDir(dir, what string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s at %s", what, dir)
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	case err == nil:
		return nil
	}
	return hint.With(err, DataHint)
}

// MakeData makes the data directory if there is none.
func MakeData(dir string) error {
	if err := (durable.Disk{}).MkdirAll(dir); err != nil {
		return hint.With(fmt.Errorf("data directory %s: %w", dir, err), "--data takes another directory")
	}
	return refuseLinks(dir)
}

// refuseLinks returns an error if there are symbolic links in the data directory
// where modproxy has directories and files of its own: the owner of the directory
// need not be trusted by the user that runs this. The directory itself may be a link.
func refuseLinks(dir string) error {
	names := []string{
		"quarantine", "tmp", "scratch", "packages", "packages/v1", "blobs", "blobs/v1", "blobs/v1/sha256",
		"index.db", "layout.json", "ledger", "auth", lockName, socketName,
	}
	for _, name := range []string{"ledger", "auth"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			continue // its reader says so
		}
		for _, entry := range entries {
			names = append(names, filepath.Join(name, entry.Name()))
		}
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
