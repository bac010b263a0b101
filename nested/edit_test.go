package nested

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/tfconfig"
)

// The editor keeps every byte except those of the replaced expressions, for any size of reads. An impossible replacement is an error.
func FuzzEditor(f *testing.F) {
	f.Add([]byte(`module "a" { source = "git::https://a" }`), 22, 16, 2, 1, "\"https://b\"", byte(0))
	f.Add([]byte("ab"), 0, 1, 0, 1, "", byte(1))
	f.Add([]byte("ab"), 0, 1, 0, 9, "x", byte(2))
	f.Add([]byte("ab"), 1, -1, 0, 1, "x", byte(3))
	f.Fuzz(func(t *testing.T, text []byte, start, length, gap, more int, with string, how byte) {
		if start > len(text) || length > len(text) || gap > len(text) || more > len(text) {
			return
		}
		second := start + length + gap
		calls := []call{
			{Source: tfconfig.Source{Start: start, End: start + length}, text: with},
			{Source: tfconfig.Source{Start: second, End: second + more}, text: with + with},
		}
		var from io.Reader = bytes.NewReader(text)
		switch how % 4 {
		case 1:
			from = iotest.OneByteReader(from)
		case 2:
			from = iotest.DataErrReader(from)
		case 3:
			from = iotest.HalfReader(from)
		}
		got, err := io.ReadAll(&editor{from: from, calls: calls})
		if start < 0 || length < 0 || gap < 0 || more < 0 || second+more > len(text) {
			if err == nil || !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%+v of %q is %q, %v", calls, text, got, err)
			}
			return
		}
		want := string(text[:start]) + with + string(text[start+length:second]) + with + with + string(text[second+more:])
		if err != nil || string(got) != want {
			t.Fatalf("%+v of %q is %q, %v; want %q", calls, text, got, err, want)
		}
	})
}

// The number and the text of the calls in all packages of a version are bounded. A package that is read again counts once.
func TestCount(t *testing.T) {
	text := strings.Repeat("a", maxText/8)
	for name, test := range map[string]struct {
		each []tfconfig.Source
		fits int // packages within the bound
		says string
	}{
		"calls": {make([]tfconfig.Source, maxCalls/4), 4, "more than 20000 calls"},
		"text":  {[]tfconfig.Source{{Source: text}, {Dynamic: text}}, 4, "more than 16.0MiB of text"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &plan{}
			for range test.fits {
				n := &node{}
				if err := errors.Join(p.count(n, test.each), p.count(n, test.each)); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.count(&node{}, test.each); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("count: %v; want an ErrInvalid with %q", err, test.says)
			}
		})
	}
}
