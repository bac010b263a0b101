package main

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that was published has its name after a power cut, too: the directory is
// flushed, for which it is opened, after the file has its name.
func TestPublishFile(t *testing.T) {
	dir := t.TempDir()
	watch, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	must(t, err)
	defer syscall.Close(watch)
	_, err = syscall.InotifyAddWatch(watch, dir, syscall.IN_OPEN|syscall.IN_MOVED_TO)
	must(t, err)
	name := filepath.Join(dir, "file")
	must(t, publishFile(name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }))
	if text, err := os.ReadFile(name); err != nil || string(text) != "text" {
		t.Errorf("published %q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
		t.Errorf("published as %v, %v", info.Mode(), err)
	}
	events := make([]byte, 64<<10)
	n, err := syscall.Read(watch, events)
	must(t, err)
	named, flushed := false, false
	for events = events[:n]; len(events) > 0; {
		mask := binary.NativeEndian.Uint32(events[4:])
		named = named || mask&syscall.IN_MOVED_TO != 0
		flushed = flushed || named && mask&syscall.IN_OPEN != 0 && mask&syscall.IN_ISDIR != 0
		events = events[syscall.SizeofInotifyEvent+binary.NativeEndian.Uint32(events[12:]):]
	}
	if !named || !flushed {
		t.Errorf("it has its name: %v; the directory was opened after that: %v", named, flushed)
	}

	// What cannot be written leaves what was there, and nothing beside it.
	failed := errors.New("no more")
	if err := publishFile(name, 0o644, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("publishFile = %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v are left, %v", entries, err)
	}
}
