package main

import (
	"bytes"
	"testing"
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
