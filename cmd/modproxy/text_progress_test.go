package main

import (
	"bytes"
	"testing"

	"github.com/modproxy/modproxy/admin"
)

// What is no terminal gets whole lines, and few of them.
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
	p.show("two")
	p.clear()
	if got := out.String(); got != "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K" {
		t.Errorf("on a terminal: %q", got)
	}
}

// How far a mirror has come is told with what is left, as far as that is known.
func TestMirrorText(t *testing.T) {
	for want, m := range map[string]admin.Mirrored{
		"0 modules asked for versions; 0 packages fetched, 0B; 0 kept before":                   {Left: 4, Seconds: 3},
		"1 module asked for versions; 1 package fetched, 2.0KiB; 2 kept before; about 12s left": {Asked: 1, Fetched: 1, Kept: 2, Bytes: 2048, Left: 6, Seconds: 8},
		"1 module asked for versions; 0 packages fetched, 0B; 0 kept before; about 1s left":     {Asked: 1, Left: 1, Seconds: .1},
		"2 modules asked for versions; 0 packages fetched, 0B; 0 kept before; 1 problem":        {Asked: 2, Problems: 1, Seconds: 9},
		"2 modules asked for versions; 0 packages fetched, 0B; 2 kept before; 3 past modproxy":  {Asked: 2, Kept: 2, Bypasses: 3, Seconds: 9},
		"1 module asked for versions; 1 package fetched, 1B; 0 kept before; about 1h40m0s left": {Asked: 1, Fetched: 1, Bytes: 1, Left: 200, Seconds: 60},
	} {
		if got := mirrorText(m); got != want {
			t.Errorf("%+v: %q, want %q", m, got, want)
		}
	}
}
