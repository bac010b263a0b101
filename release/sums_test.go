package release

import (
	"errors"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestParseSums(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for _, c := range []struct {
		name, in string
		whole    bool
		blank    int
		file     string // checked for the checksum a
		err      string // of ParseSums, or of Check
	}{
		{name: "LF", in: a + "  x.zip\n" + b + "  y.zip\n", whole: true, file: "x.zip"},
		{name: "CRLF", in: b + "  y.zip\r\n" + a + "  x.zip\r\n", whole: true, file: "x.zip"},
		{name: "without a final newline", in: a + "  x.zip", whole: true, file: "x.zip"},
		{name: "upper case", in: strings.ToUpper(a) + "\tx.zip\n", whole: true, file: "x.zip"},
		{name: "more fields", in: a + "  x.zip and more\n", whole: true, file: "x.zip"},
		{name: "binary mark", in: a + " *x.zip\n", whole: true, file: "x.zip", err: "no line for"},
		{name: "another case", in: a + " X.zip\n", whole: true, file: "x.zip", err: "no line for"},
		{name: "same line twice", in: a + "  x.zip\n" + a + "  x.zip\n", whole: true, file: "x.zip"},
		{name: "two checksums", in: a + "  x.zip\n" + b + "  x.zip\n", err: "two lines"},
		{name: "another checksum", in: b + "  x.zip\n", whole: true, file: "x.zip", err: "the registry says"},
		{name: "a comment", in: "# of today\n" + a + "  x.zip\n", file: "x.zip"},
		{name: "a lone field", in: a + "\n" + a + "  x.zip\n", file: "x.zip"},
		{name: "a line too long, at which clients panic", in: a + "aa  x.zip\n", file: "x.zip", err: "has no checksum"},
		{name: "no checksum, then one", in: "z  x.zip\n" + a + "  x.zip\n", err: "two lines"},
		{name: "one newline too many", in: a + "  x.zip\n\n", whole: true, blank: 2, file: "x.zip"},
		{name: "a blank line", in: " \t\r\n" + a + "  x.zip\n", whole: true, blank: 1, file: "x.zip"},
		{name: "a blank line that clients do not reach", in: "#\n\n" + a + "  x.zip\n", file: "x.zip"},
		{name: "empty", in: "", err: "empty"},
		{name: "too many lines", in: strings.Repeat("#\n", maxLines+1), err: "lines"},
		{name: "most lines", in: strings.Repeat(a+" x.zip\n", maxLines), whole: true, file: "x.zip"},
		{name: "a long line", in: a + " x.zip " + strings.Repeat("x", maxLine), err: "line 1 has more"},
		{name: "too long", in: strings.Repeat("x", MaxSums+1), err: "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sums, err := ParseSums([]byte(c.in))
			var blank *BlankLine
			if errors.As(err, &blank) != (c.blank > 0) || blank != nil && (blank.Line != c.blank || !errors.Is(err, modproxy.ErrInvalid)) {
				t.Fatalf("error %v, want a blank line %d", err, c.blank)
			}
			if sums == nil {
				if c.file != "" || c.err == "" || !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if sums.Whole != c.whole {
				t.Errorf("whole: %t", sums.Whole)
			}
			digest, _ := modproxy.ParseDigest(a)
			if err := sums.Check(c.file, digest); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestSumsExtend(t *testing.T) {
	parse := func(text []byte) *Sums {
		s, err := ParseSums(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := parse(sumsOf("a.zip", "b.zip"))
	if err := parse(sumsOf("c.zip", "b.zip", "a.zip")).Extends(before); err != nil {
		t.Error(err)
	}
	if err := parse(sumsOf("a.zip")).Extends(before); !errors.Is(err, modproxy.ErrChanged) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a line is gone: %v", err)
	}
	other := []byte(strings.Replace(string(sumsOf("a.zip", "b.zip")), "a.zip", "x.zip", 1) + strings.Repeat("a", 64) + " a.zip")
	if err := parse(other).Extends(before); !errors.Is(err, modproxy.ErrChanged) || !strings.Contains(err.Error(), "and was") {
		t.Errorf("another checksum: %v", err)
	}
}

func FuzzSums(f *testing.F) {
	f.Add(sumsOf("a.zip", "b.zip"))
	f.Add([]byte("#\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		sums, err := ParseSums(in)
		if sums == nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatalf("neither sums nor an error: %v", err)
			}
			return
		}
		for file, d := range sums.Files() {
			if err := sums.Check(file, d); err != nil {
				t.Fatal(err)
			}
		}
		if err := sums.Extends(sums); err != nil {
			t.Fatal(err)
		}
		if crashes := clientCrashes(in); crashes != (err != nil) {
			t.Fatalf("a client crashes: %t, error %v", crashes, err)
		}
	})
}
