package cache_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/ledger/ledgertest"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/store/storetest"
)

// damages are what can happen to a blob on a disk.
var damages = map[string]func(name string, data []byte) error{
	"first byte":  func(name string, data []byte) error { return rewrite(name, flip(data, 0)) },
	"middle byte": func(name string, data []byte) error { return rewrite(name, flip(data, len(data)/2)) },
	"last byte":   func(name string, data []byte) error { return rewrite(name, flip(data, len(data)-1)) },
	"cut short":   func(name string, data []byte) error { return rewrite(name, data[:len(data)-1]) },
	"longer":      func(name string, data []byte) error { return rewrite(name, append(bytes.Clone(data), 0)) },
	"empty":       func(name string, _ []byte) error { return rewrite(name, nil) },
	"zeros":       func(name string, data []byte) error { return rewrite(name, make([]byte, len(data))) },
	"another":     func(name string, data []byte) error { b, _ := storetest.Bytes(len(data), 99); return rewrite(name, b) },
	"gone":        func(name string, _ []byte) error { return os.Remove(name) },
	"directory":   func(name string, _ []byte) error { return errors.Join(os.Remove(name), os.Mkdir(name, 0o700)) },
	"link":        func(name string, _ []byte) error { return errors.Join(os.Remove(name), os.Symlink("/dev/zero", name)) },
}

func rewrite(name string, data []byte) error {
	return errors.Join(os.Remove(name), os.WriteFile(name, data, 0o400))
}

func flip(data []byte, at int) []byte {
	data = bytes.Clone(data)
	data[at] ^= 0x10
	return data
}

// directory is a data directory with one package in it, and what else a registry needs.
type directory struct {
	*next
	blob    string // its file
	storage storetest.Handle
	ledger  *ledgertest.Memory
}

func newDirectory(t *testing.T) *directory {
	dir := t.TempDir()
	s, err := disk.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	d := &directory{
		next: &next{}, storage: storetest.Handle{Records: s.Records(), Blobs: s.Blobs(), Quarantine: s}, ledger: ledgertest.NewMemory(),
	}
	data, digest := storetest.Bytes(200_000, 1)
	d.content = data
	d.blob = filepath.Join(dir, "blobs", "v1", "sha256", digest.String()[:2], digest.String())
	r := d.registry(0, d.next)
	if _, err := read(r, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, r)
	return d
}

// registry makes a registry over the directory. A nil next is offline.
func (d *directory) registry(memory int64, n ledger.Upstream) *cache.Registry {
	return newRegistry(d.storage, d.ledger, n, memory)
}

// get is a request for the package, answered as an HTTP server would.
func get(r *cache.Registry, header http.Header) (*httptest.ResponseRecorder, error) {
	request := httptest.NewRequest("GET", "/", nil)
	request.Header = header
	p, err := r.Package(request.Context(), vpc.At("1.0.0"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	w := httptest.NewRecorder()
	w.Header().Set("Etag", `"`+p.Digest.String()+`"`)
	http.ServeContent(w, request, "", p.Time, p)
	return w, nil
}

var ranges = []string{"", "bytes=0-", "bytes=0-0", "bytes=100000-100010", "bytes=-1", "bytes=199999-", "bytes=5-6,9-10"}

// After any damage to a blob, it is not served for any request, and the
// next client receives the original bytes.
func TestDamageIsNeverServed(t *testing.T) {
	for name, damage := range damages {
		for memory, how := range map[int64]string{0: "whole", -1: "streamed"} {
			t.Run(name+" "+how, func(t *testing.T) {
				d := newDirectory(t)
				for i, ranged := range ranges {
					if err := damage(d.blob, d.content); err != nil {
						t.Fatal(err)
					}
					synctest.Test(t, func(t *testing.T) {
						time.Sleep(time.Duration(i) * time.Hour) // every bubble begins at the same time
						r := d.registry(memory, d.next)
						defer mustClose(t, r)
						header := http.Header{}
						if ranged != "" {
							header.Set("Range", ranged)
						}
						served(t, r, header, d.content)
						synctest.Wait() // until it has been fetched again
						if w := served(t, r, http.Header{}, d.content); w.Body.Len() != len(d.content) {
							t.Errorf("%d bytes after it was fetched again", w.Body.Len())
						}
					})
				}
				equal(t, "fetched again", d.asked("package"), 1+len(ranges))
				aside, err := filepath.Glob(filepath.Join(filepath.Dir(d.blob), "../../../../quarantine/*"))
				want := len(ranges)
				if name == "gone" {
					want = 0
				}
				if len(aside) != want || err != nil {
					t.Errorf("set aside: %q, %v; want %d", aside, err, want)
				}
			})
		}
	}
}

// served fails the test when an answer that a client takes as complete has a
// wrong byte in it.
func served(t *testing.T, r *cache.Registry, header http.Header, content []byte) *httptest.ResponseRecorder {
	t.Helper()
	w, err := get(r, header)
	if err != nil {
		t.Fatalf("%v: %v", header, err)
	}
	want := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/", nil)
	request.Header = header
	http.ServeContent(want, request, "", time.Time{}, bytes.NewReader(content))
	length := w.Result().ContentLength
	if w.Code != want.Code || length != want.Result().ContentLength {
		t.Errorf("%v: status %d, length %d; want %d, %d", header, w.Code, length, want.Code, want.Result().ContentLength)
	}
	if header.Get("Range") == ranges[len(ranges)-1] { // its boundary is random
		if w.Body.Len() > 0 && bytes.Count(w.Body.Bytes(), content[5:7]) != 1 && length == int64(w.Body.Len()) {
			t.Errorf("%v: other bytes", header)
		}
	} else if int64(w.Body.Len()) == length && !bytes.Equal(w.Body.Bytes(), want.Body.Bytes()) {
		t.Errorf("%v: complete, and other bytes", header)
	}
	return w
}

func TestDamageOffline(t *testing.T) {
	for name, damage := range damages {
		for memory, how := range map[int64]string{0: "whole", -1: "streamed"} {
			t.Run(name+" "+how, func(t *testing.T) {
				d := newDirectory(t)
				if err := damage(d.blob, d.content); err != nil {
					t.Fatal(err)
				}
				r := d.registry(memory, nil)
				defer mustClose(t, r)
				var gone *modproxy.NotCached
				for range 2 {
					data, err := read(r, "1.0.0")
					if !errors.Is(err, modproxy.ErrUnavailable) || strings.Contains(err.Error(), d.blob) {
						t.Errorf("%d bytes, %v", len(data), err)
					}
					if name == "cut short" && !errors.As(err, &gone) { // which is seen before anything is sent
						t.Errorf("%v; want that it is no longer kept", err)
					}
				}
				if _, err := r.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &gone) || strings.Contains(err.Error(), d.blob) {
					t.Errorf("location: %v", err)
				}
			})
		}
	}
}

func TestDamageThatCannotBeMended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		before := f.fetch(t, "1.0.0")
		f.restart(t)
		f.storage.Replace(digestOf(before), []byte("damaged"))
		f.next.change(func(n *next) { n.content = []byte("rewritten upstream") })
		for range 3 {
			if _, err := read(f.Registry, "1.0.0"); !errors.Is(err, modproxy.ErrChanged) {
				t.Errorf("%v, want ErrChanged", err)
			}
			var failed *modproxy.FetchFailed
			if _, err := f.Location(t.Context(), vpc.At("1.0.0")); !errors.As(err, &failed) {
				t.Errorf("location: %v", err)
			}
			time.Sleep(time.Minute)
		}
		equal(t, "kept", f.keeps(t, "1.0.0"), false)
		equal(t, "set aside", len(f.storage.Evidence()), 1)
		// The same content packed in another way is the same content.
		f.next.change(func(n *next) { n.content, n.sum = []byte("packed anew"), sumOf(before) })
		if got := f.fetch(t, "1.0.0"); string(got) != "packed anew" {
			t.Errorf("%q", got)
		}
	})
}

// A package that upstream gives a second time, under another version, does not
// rest on a damaged blob.
func TestDamageUnderAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.fetch(t, "1.0.0")
		f.storage.Replace(digestOf(f.next.content), flip(f.next.content, 50_000))
		f.memory = -1
		f.restart(t)
		if !bytes.Equal(f.fetch(t, "1.0.1"), f.next.content) || !bytes.Equal(f.fetch(t, "1.0.0"), f.next.content) {
			t.Error("other bytes")
		}
		equal(t, "set aside", len(f.storage.Evidence()), 1)
	})
}
