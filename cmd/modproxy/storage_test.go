package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestPattern(t *testing.T) {
	m := modproxy.Module{Host: "registry.example.com", Namespace: "acme", Name: "network-x", System: "aws"}
	for pattern, want := range map[string]bool{
		"": true, "*/*/*": true, "*/*/*/*": true, "acme/*/aws": true, "acme/network-*/aws": true, "registry.example.com/acme/network-x/aws": true,
		"acme/network/aws": false, "*.example.com/*/*/*": true, "other.example.com/*/*/*": false, "acm/*/*": false, "*/*/a?s": true,
	} {
		p, err := parsePattern(pattern)
		if err != nil || p.matches(m) != want {
			t.Errorf("%q: %v, %v; want %v", pattern, p.matches(m), err, want)
		}
	}
	for _, bad := range []string{"acme", "*", "a/b", "a/b/c/d/e", "a/[/c"} {
		if _, err := parsePattern(bad); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1.0KiB", 1536: "1.5KiB", 50 << 30: "50.0GiB", 3 << 40: "3.0TiB", 1 << 60: "1048576.0TiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// What is no terminal gets whole lines, and few of them.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	for range 1000 {
		p.show("text")
	}
	p.end()
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
	p.end()
	if got := out.String(); got != "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K" {
		t.Errorf("on a terminal: %q", got)
	}
}
