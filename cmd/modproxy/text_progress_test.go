package main

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/modproxy/modproxy/mirror"
)

// An output that is not a terminal gets few, whole lines.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	for range 1000 {
		p.show("text")
	}
	if out.Len() != 0 {
		t.Errorf("%q at once", out.String())
	}
	p.shown = p.shown.Add(-progressPause)
	p.show("text")
	p.show("text")
	if out.String() != "text\n" {
		t.Errorf("%q", out.String())
	}
	out.Reset()
	p = &progress{w: &out, terminal: true}
	p.show("one")
	p.show("t\x1b]0;w\n\u202eo")
	p.clear()
	if got := out.String(); got != "\r\x1b[Kone\r\x1b[Kt\\x1b]0;w\\n\\u202eo\r\x1b[K" {
		t.Errorf("on a terminal: %q", got)
	}
}

// The progress of a mirror has the remaining time, if it is known.
func TestMirrorText(t *testing.T) {
	for want, m := range map[string]mirror.Progress{
		"0 version lists requested; 0 packages fetched, 0B; 0 cached before":                   {Left: 4, Seconds: 3},
		"1 version list requested; 1 package fetched, 2.0KiB; 2 cached before; about 12s left": {Requested: 1, Fetched: 1, Kept: 2, Bytes: 2048, Left: 6, Seconds: 8},
		"1 version list requested; 0 packages fetched, 0B; 0 cached before; about 1s left":     {Requested: 1, Left: 1, Seconds: .1},
		"2 version lists requested; 0 packages fetched, 0B; 0 cached before; 1 problem":        {Requested: 2, Problems: 1, Seconds: 9},
		"2 version lists requested; 0 packages fetched, 0B; 2 cached before; 3 past modproxy":  {Requested: 2, Kept: 2, Bypasses: 3, Seconds: 9},
		"1 version list requested; 1 package fetched, 1B; 0 cached before; about 1h40m0s left": {Requested: 1, Fetched: 1, Bytes: 1, Left: 200, Seconds: 60},
	} {
		if got := mirrorText(m); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}

// The progress of a transfer has the rate and the remaining time, if they are known.
func TestTransferText(t *testing.T) {
	for want, is := range map[string]struct {
		done, total int64
		took        time.Duration
	}{
		"0B of 4.0MiB read":      {0, 4 << 20, time.Minute},
		"1.0MiB read":            {1 << 20, 0, 0},
		"100.0MiB read, 10 MB/s": {100 << 20, 0, 10 * time.Second},
		"100.0MiB of 400.0MiB read, 10 MB/s; about 30s left": {100 << 20, 400 << 20, 10 * time.Second},
		"400.0MiB of 400.0MiB read, 42 MB/s":                 {400 << 20, 400 << 20, 10 * time.Second},
	} {
		if got := transferText("read", is.done, is.total, is.took); got != want {
			t.Errorf("%+v: %q, want %q", is, got, want)
		}
	}
}

// A terminal gets an update from time to time, and none after the end.
func TestTransfer(t *testing.T) {
	var out bytes.Buffer
	b := newTransfer(&out, "written")
	b.progress.terminal = true
	b.begin(4096)
	for range 4 {
		if _, err := b.Write(make([]byte, 512)); err != nil {
			t.Fatal(err)
		}
	}
	b.end()
	_, _ = b.Write(make([]byte, 512))
	if want := "\r\x1b[K512B of 4.0KiB written\r\x1b[K"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// An import that is interrupted prints how much it has read, and how to continue.
func TestImportEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in, feed := io.Pipe()
	context.AfterFunc(ctx, func() { feed.CloseWithError(ctx.Err()) })
	go func() {
		_, _ = feed.Write([]byte("manifest"))
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"import", "-", "--data", t.TempDir()}, nil, in, &stdout, &stderr)
	want := "modproxy: ended by a signal before it was done\nhint: 8B read: what was taken stays, and the same command goes on with the rest\n"
	if code != exitFailed || stderr.String() != want {
		t.Errorf("%d, %q, want %q", code, stderr.String(), want)
	}
}
