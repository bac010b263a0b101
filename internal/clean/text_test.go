package clean_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"

	"github.com/modproxy/modproxy/internal/clean"
)

var texts = map[string]string{
	"":                          "",
	"é 漢字 \\x1b":                "é 漢字 \\x1b",
	"a\nb\r\tc":                 `a\nb\r\tc`,
	"\x1b]0;x\x07\x7f\u009b":    `\x1b]0;x\a\x7f\u009b`,
	"\u202ea\u2066\u200f\ufeff": `\u202ea\u2066\u200f\ufeff`,
	"\xff\xc3":                  `\xff\xc3`,
	"a\ufffd":                   "a\ufffd",
	"\U000e0001":                `\U000e0001`,
}

func TestText(t *testing.T) {
	for s, want := range texts {
		if got := clean.Text(s); got != want || clean.Text(got) != got {
			t.Errorf("Text(%q) = %q, want %q", s, got, want)
		}
	}
}

// A Writer changes the same characters as Text, except line breaks and tabs, with any sequence of writes.
func TestWriter(t *testing.T) {
	for s, want := range texts {
		want = strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(want)
		var out strings.Builder
		w := clean.NewWriter(iotest.TruncateWriter(&out, 1<<20))
		for i := range len(s) {
			if n, err := w.Write([]byte(s[i : i+1])); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		}
		if err := w.Flush(); err != nil || out.String() != want {
			t.Errorf("%q is written as %q, want %q: %v", s, out.String(), want, err)
		}
	}
}

// The result of JSON has the same meaning, and no characters that control a terminal.
func FuzzJSON(f *testing.F) {
	for s := range texts {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.MarshalIndent(map[string]string{"x": s}, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		got := clean.JSON(text)
		var before, after map[string]string
		if err := json.Unmarshal(got, &after); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		if err := json.Unmarshal(text, &before); err != nil || before["x"] != after["x"] {
			t.Errorf("%q was %q: %v", after["x"], before["x"], err)
		}
		for _, line := range strings.Split(string(got), "\n") {
			line = strings.TrimLeft(line, "\t")
			if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q", line)
			}
		}
	})
}

// Deep changes its result, and not its argument.
func TestDeep(t *testing.T) {
	type Inner struct{ A, b string }
	type all struct {
		Inner
		Named  []string
		Bytes  []byte
		Any    any
		To     *Inner
		By     map[string]Inner
		Array  [1]string
		Number int
		Nil    *Inner
		NoList []string
		NoMap  map[string]string
	}
	bad, good := "a\n\x1b", `a\n\x1b`
	of := func(s string) all {
		return all{
			Inner{s, bad}, []string{"x", s}, []byte(bad), Inner{s, bad}, &Inner{s, bad}, map[string]Inner{s: {s, bad}}, [1]string{s}, 7, nil, nil, nil,
		}
	}
	was := of(bad)
	if got := clean.Deep(was); !reflect.DeepEqual(got, of(good)) {
		t.Errorf("Deep = %+v\nwant %+v", got, of(good))
	}
	if !reflect.DeepEqual(was, of(bad)) {
		t.Errorf("it has become %+v", was)
	}
	if same := of(good); clean.Deep(same).To != same.To {
		t.Error("what is clean is copied")
	}
	if got := clean.Deep(bad); got != good {
		t.Errorf("Deep = %q", got)
	}
}
