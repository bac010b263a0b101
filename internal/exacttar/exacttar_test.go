package exacttar

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

// archive writes files with the standard library.
func archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, content := range files {
		if err := w.WriteHeader(Header(string(rune('a'+i)), int64(len(content)))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read returns the files of an archive as "name=content", up to an error.
func read(b []byte) (files []string, at int64, err error) {
	r := Reader{R: bytes.NewReader(b), What: "archive", Remedy: "copy it again"}
	for {
		name, size, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, r.At, nil
		}
		if err != nil {
			return files, r.At, err
		}
		text, err := io.ReadAll(r.Content(name, size))
		if err != nil {
			return files, r.At, err
		}
		files = append(files, name+"="+string(text))
	}
}

func TestRead(t *testing.T) {
	whole := archive(t, "one", "", strings.Repeat("x", 512))
	files, at, err := read(whole)
	if got := strings.Join(files, ","); err != nil || got != "a=one,b=,c="+strings.Repeat("x", 512) || at != int64(len(whole)) {
		t.Errorf("%s at %d, %v", got, at, err)
	}
	r := Reader{R: bytes.NewReader(whole), What: "archive"}
	if text, err := r.First("a", 3); err != nil || string(text) != "one" {
		t.Errorf("First: %q, %v", text, err)
	}
	if text, err := r.File("b", 0); err != nil || len(text) > 0 {
		t.Errorf("File: %q, %v", text, err)
	}
	if err := r.Header("c", 511); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("a header of another size: %v", err)
	}
	for _, most := range []int64{0, 2} {
		r := Reader{R: bytes.NewReader(whole), What: "archive"}
		if _, err := r.First("a", most); err == nil || !strings.Contains(err.Error(), "this is not a archive") {
			t.Errorf("a first file of more than %d bytes: %v", most, err)
		}
	}
}

// A change of any byte outside of contents is an error, and so is a cut at any byte.
func TestEveryByte(t *testing.T) {
	whole := archive(t, "one", "two")
	for at := range whole {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		isContent := at >= 512 && at < 515 || at >= 1536 && at < 1539
		if _, _, err := read(flipped); (err == nil) != isContent || err != nil && !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("byte %d changed: %v", at, err)
		}
		if _, _, err := read(whole[:at]); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("cut at byte %d: %v", at, err)
		}
	}
	if _, _, err := read(append(whole, 0)); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("one more byte: %v", err)
	}
}
