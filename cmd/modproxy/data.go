package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// dataHint is what to do where a directory is not there.
const dataHint = "--data names the data directory"

// haveData is nil if there is a data directory. A verb that looks into it makes
// none: its name may be a mistake.
func haveData(dir string) error { return haveDir(dir, "data directory") }

// haveLedger is nil if there are a data directory and a ledger in it.
func haveLedger(c *Config) error {
	if err := haveData(c.Data); err != nil {
		return err
	}
	return haveDir(ledgerDir(c), "ledger")
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
	return withHint(err, dataHint)
}
