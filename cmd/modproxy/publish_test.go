package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy/test/rig"
)

func TestPublishFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	must(t, publishFile(t.Context(), name, 0o644, func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }))
	if text, err := os.ReadFile(name); err != nil || string(text) != "text" {
		t.Errorf("published %q, %v", text, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
		t.Errorf("published as %v, %v", info.Mode(), err)
	}
	// A failed write leaves the old file and no other file.
	failed := errors.New("no more")
	if err := publishFile(t.Context(), name, 0o644, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("publishFile = %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v are left, %v", entries, err)
	}
}

func TestPublishFileIsNoFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		rig.Missing(t, "Windows has no named pipes")
	}
	dir := t.TempDir()
	write := func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }

	// A pipe that another process reads gets the text and stays a pipe.
	pipe := filepath.Join(dir, "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	read := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		read <- fmt.Sprint(string(text), err)
	}()
	must(t, publishFile(t.Context(), pipe, 0o644, write))
	if info, err := os.Stat(pipe); err != nil || info.Mode().IsRegular() {
		t.Fatalf("the pipe is now %v, %v", info.Mode(), err)
	}
	if got := <-read; got != "text<nil>" {
		t.Errorf("the pipe had %q", got)
	}

	// The target of a link is written, and the link stays.
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	must(t, errors.Join(os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link)))
	must(t, publishFile(t.Context(), link, 0o644, write))
	if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("behind the link is %q, %v", text, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}

	for _, name := range []string{dir, ""} {
		if err := publishFile(t.Context(), name, 0o644, write); err == nil || strings.Contains(err.Error(), ".tmp") {
			t.Errorf("publishFile(%q) = %v", name, err)
		}
	}
}

// A pipe without a reader, or with a reader that reads nothing, blocks only until the context ends.
func TestPublishIntoPipeEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		rig.Missing(t, "Windows has no named pipes")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command("mkfifo", pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	ended := errors.New("terminated")
	ctx, end := context.WithCancelCause(t.Context())
	end(ended)
	never := func(io.Writer) error { t.Error("it was written"); return nil }
	if err := publishFile(ctx, pipe, 0o644, never); !errors.Is(err, ended) || !strings.Contains(err.Error(), "no program reads it") {
		t.Errorf("without a reader: %v", err)
	}

	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // does not need a writer
	must(t, err)
	defer reader.Close()
	ctx, end = context.WithCancelCause(t.Context())
	endless := func(w io.Writer) error {
		time.AfterFunc(50*time.Millisecond, func() { end(ended) }) // most likely during the write
		_, err := w.Write(make([]byte, 16<<20))                    // more than a pipe buffers
		return err
	}
	if err := publishFile(ctx, pipe, 0o644, endless); !errors.Is(err, ended) {
		t.Errorf("a reader that takes nothing: %v", err)
	}
}

// Only the owner may read an export, and it does not follow a link to a file.
func TestPublishPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		rig.Missing(t, "Windows has no file modes")
	}
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	write := func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }
	must(t, errors.Join(os.WriteFile(file, []byte("old"), 0o644), os.Symlink("file", link)))
	if err := publishPrivate(t.Context(), link, write); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
		t.Errorf("through a link: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("behind the link is %q, %v", text, err)
	}
	must(t, publishPrivate(t.Context(), file, write))
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("published as %v, %v", info.Mode(), err)
	}
}
