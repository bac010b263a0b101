package spool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy/internal/spool"
)

func newFile(t *testing.T) (*spool.File, string) {
	t.Helper()
	dir := t.TempDir()
	f, err := spool.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return f, dir
}

func open(t *testing.T, f *spool.File, ctx context.Context) *spool.Reader {
	t.Helper()
	r, err := f.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Early and late readers read the whole content, also after Close, and no file remains.
func TestReadersFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, dir := newFile(t)
		data := bytes.Repeat([]byte("modproxy"), 10_000)
		var group sync.WaitGroup
		follow := func() {
			r := open(t, f, t.Context())
			group.Go(func() {
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
		for piece := data; len(piece) > 0; piece = piece[1000:] {
			follow()
			if _, err := f.Write(piece[:1000]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		f.End(nil)
		f.End(errors.New("too late"))
		follow()
		late := open(t, f, t.Context())
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		group.Wait()
		if err := iotest.TestReader(late, data); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("left over: %v, %v", left, err)
		}
	})
}

// A waiting reader returns when the file ends, or when its own context ends.
func TestReadersEnd(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		end  func(*spool.File, context.CancelFunc)
		want error
	}{
		"failed":   {func(f *spool.File, _ context.CancelFunc) { f.End(broken) }, broken},
		"closed":   {func(f *spool.File, _ context.CancelFunc) { f.Close() }, fs.ErrClosed},
		"canceled": {func(_ *spool.File, cancel context.CancelFunc) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, _ := newFile(t)
				defer f.Close()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := open(t, f, ctx)
				if _, err := f.Write([]byte("some")); err != nil {
					t.Fatal(err)
				}
				go func() {
					time.Sleep(time.Second)
					c.end(f, cancel)
				}()
				if got, err := io.ReadAll(r); string(got) != "some" || !errors.Is(err, c.want) {
					t.Errorf("%q, %v; want %v", got, err, c.want)
				}
				if _, err := r.Seek(0, io.SeekEnd); !errors.Is(err, c.want) {
					t.Errorf("Seek: %v, want %v", err, c.want)
				}
			})
		})
	}
}

func TestLink(t *testing.T) {
	f, dir := newFile(t)
	r := open(t, f, t.Context())
	if _, err := f.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	f.End(nil)
	name := filepath.Join(dir, "kept")
	if err := errors.Join(r.Link(name), f.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); string(got) != "some" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := r.Link(name + "2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}
