package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
	"github.com/modproxy/modproxy/internal/hint"
)

// publishPrivate is publishFile for exports, which only their owner may read. It does not write through a symbolic link to a file, because
// another user with access to the directory could choose the file that is replaced. It removes temporary files of killed exports.
func publishPrivate(ctx context.Context, name string, write func(io.Writer) error) error {
	info, err := os.Lstat(name)
	to, errTo := os.Stat(name) // devices may be reached through links
	if err == nil && info.Mode()&fs.ModeSymlink != 0 && (errTo != nil || to.Mode().IsRegular()) {
		return hint.With(fmt.Errorf("%s is a symbolic link", name), "name the file itself, or remove the link")
	}
	return publish(ctx, name, exportMark, 0o600, func(w io.Writer) error {
		if f, ok := w.(*os.File); ok {
			removeLeft(f, filepath.Base(name))
		}
		return write(w)
	})
}

// publishFile writes a file as a whole and durably. On error the old file stays, unless only the flush of the directory fails. It follows
// links, and writes into pipes and devices until ctx ends.
func publishFile(ctx context.Context, name string, mode fs.FileMode, write func(io.Writer) error) error {
	return publish(ctx, name, "", mode, write)
}

// publish is publishFile with mark in the name of the temporary file.
func publish(ctx context.Context, name, mark string, mode fs.FileMode, write func(io.Writer) error) error {
	switch info, err := os.Stat(name); {
	case name == "":
		return errors.New("the name of a file is empty")
	case err != nil: // the file does not exist
	case info.IsDir():
		return fmt.Errorf("%s is a directory", name)
	case !info.Mode().IsRegular():
		return writeInto(ctx, name, write)
	default:
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	disk, dir := durable.Disk{}, filepath.Dir(name)
	temp, err := disk.WriteTemp(dir, filepath.Base(name)+mark, func(f *os.File) error { return errors.Join(write(f), f.Chmod(mode)) })
	if err == nil {
		err = disk.Rename(temp, name)
	}
	if _, missing := os.Stat(dir); err != nil && errors.Is(missing, fs.ErrNotExist) {
		return fmt.Errorf("no directory %s", dir)
	}
	return err
}

// pipePoll is the pause between attempts to open a pipe that has no reader.
const pipePoll = 20 * time.Millisecond

// writeInto writes into a pipe or a device. It waits for the reader of a pipe until ctx ends.
func writeInto(ctx context.Context, name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	for errors.Is(err, syscall.ENXIO) { // a pipe without a reader
		select {
		case <-time.After(pipePoll):
			f, err = os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		case <-ctx.Done():
			return fmt.Errorf("%s: no program reads it: %w", name, context.Cause(ctx))
		}
	}
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Now()) }) // devices have no deadlines and do not block
	defer stop()
	err = errors.Join(write(f), f.Close())
	if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	return err
}

// exportMark is part of the names of temporary files of exports: FILE.export.NNN.tmp. Earlier versions of modproxy did not add it.
const exportMark = ".export"

var (
	tempOfExport = regexp.MustCompile(`\.export\.[0-9]+\.tmp$`)
	tempBefore   = regexp.MustCompile(`^\.[0-9]+\.tmp$`) // follows the name of the file
)

// removeLeft removes temporary files of killed exports from the directory of f, the temporary file of an export to name. Running exports
// hold locks on theirs.
func removeLeft(f *os.File, name string) {
	dir, own := filepath.Split(f.Name())
	if !tempOfExport.MatchString(own) || filelock.TryLock(f) != nil { // a pipe, or a file system without locks
		return
	}
	entries, _ := os.ReadDir(filepath.Dir(f.Name())) // remaining files do no harm
	for _, e := range entries {
		suffix, same := strings.CutPrefix(e.Name(), name)
		is := tempOfExport.MatchString(e.Name()) || same && tempBefore.MatchString(suffix)
		if !is || e.Name() == own || !e.Type().IsRegular() {
			continue
		}
		if left, err := os.Open(dir + e.Name()); err == nil {
			if filelock.TryLock(left) == nil {
				_ = os.Remove(left.Name())
			}
			left.Close()
		}
	}
}
