package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/modproxy/modproxy/config"
	"github.com/modproxy/modproxy/internal/hint"
)

// dataHint is what to do where a directory is not there.
const dataHint = "--data names the data directory"

// haveData is nil if there is a data directory. A verb that looks into it makes
// none: its name may be a mistake.
func haveData(dir string) error {
	if err := haveDir(dir, "data directory"); err != nil {
		return err
	}
	return refuseLinks(dir)
}

// refuseLinks is nil unless there are symbolic links in the data directory where
// modproxy has directories and files of its own: who owns the directory need not be
// trusted by who runs this. The directory itself may be a link.
func refuseLinks(dir string) error {
	names := []string{
		"quarantine", "tmp", "scratch", "packages", "packages/v1", "blobs", "blobs/v1", "blobs/v1/sha256",
		"index.db", "layout.json", "ledger", "auth",
	}
	for _, name := range []string{"ledger", "auth"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil {
			continue // who needs it says so
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

// haveLedger is nil if there are a data directory and a ledger in it.
func haveLedger(c *config.Config) error {
	if err := haveData(c.Data); err != nil {
		return err
	}
	return haveDir(c.LedgerDir(), "ledger")
}

func haveDir(dir, what string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s at %s", what, dir)
	case err == nil && !info.IsDir():
		err = fmt.Errorf("%s is not a directory", dir)
	case err == nil:
		return nil
	}
	return hint.With(err, dataHint)
}
