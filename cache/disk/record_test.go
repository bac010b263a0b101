package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/cache"
)

// A record that is read says what was sealed; any change to it is an error.
func FuzzRecord(f *testing.F) {
	rec := cache.PackageRecord{Sum: "h1:a", Size: 3, Subdir: "a", Notes: "a\nb", Fetched: time.Unix(1, 2).UTC()}
	sealed, err := sealPackage(vpc, "1.0.0", rec)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed, 0, byte(1))
	f.Add(sealed, 70, byte(0x20))
	f.Add([]byte("\n\n"), 0, byte(0))
	f.Add([]byte{}, 0, byte(0))
	f.Fuzz(func(t *testing.T, value []byte, at int, change byte) {
		kept, err := unsealPackage(value)
		if err == nil {
			again, err := sealPackage(kept.Module, kept.Version, kept.Record)
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := unsealPackage(again); twice != kept || err != nil {
				t.Fatalf("%+v became %+v, %v", kept, twice, err)
			}
		}
		changed := bytes.Clone(sealed)
		changed[uint(at)%uint(len(changed))] ^= change
		if _, err := unsealPackage(changed); (err == nil) != (change == 0) {
			t.Fatalf("changed at %d by %d: %v", at, change, err)
		}
	})
}

func TestRecordOfAnother(t *testing.T) {
	other := vpc
	other.Name = "other"
	value, err := sealPackage(vpc, "1.0.0", cache.PackageRecord{Sum: "h1:a"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range [][]byte{packageKey(other, "1.0.0"), packageKey(vpc, "1.0.1"), {}, {0xff}} {
		if kept, err := readPackage(key, value); !errors.Is(err, errDamaged) {
			t.Errorf("%q: %+v, %v", key, kept, err)
		}
	}
	value, err = sealVersions(vpc, cache.VersionsRecord{Document: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := unsealVersions(value, other); !errors.Is(err, errDamaged) {
		t.Errorf("%+v, %v", rec, err)
	}
	if _, err := sealPackage(vpc, "1.0.0", cache.PackageRecord{Subdir: "a\xff"}); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("what JSON cannot say: %v", err)
	}
}

// Keys are told apart, and read as what they were made from.
func FuzzKey(f *testing.F) {
	f.Add("a", "b", "c", "d", "1.0.0", []byte{})
	f.Add("", "\x00/", "c\x01d", "", "", []byte{1, 'a', 1, 'b', 0, 0, 0})
	f.Add("x", "", "", "", "", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, host, namespace, name, system, version string, key []byte) {
		m := modproxy.Module{Host: host, Namespace: namespace, Name: name, System: system}
		if got, v, ok := parseKey(packageKey(m, version)); m != (modproxy.Module{}) && (got != m || v != version || !ok) {
			t.Fatalf("%q %q became %q %q %v", m, version, got, v, ok)
		}
		if m, version, ok := parseKey(key); ok && m != (modproxy.Module{}) {
			if again, v, ok := parseKey(packageKey(m, version)); again != m || v != version || !ok {
				t.Fatalf("%q is %q %q, which is %q %q %v", key, m, version, again, v, ok)
			}
		}
	})
}

// The check of a file's head bears whatever is in it.
func FuzzCheckMeta(f *testing.F) {
	s, err := Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	s.Close()
	head, err := os.ReadFile(s.path(indexName))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head)
	f.Add(head[:4096+100])
	f.Add(head[4096:])
	f.Add([]byte{})
	zero := bytes.Clone(head)
	binary.NativeEndian.PutUint32(zero[metaOffset+8:], 0)
	f.Add(zero)
	f.Fuzz(func(t *testing.T, head []byte) {
		name := filepath.Join(t.TempDir(), "index.db")
		if err := os.WriteFile(name, head, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := checkMeta(file); err == nil && len(head) < 4*512 {
			t.Fatalf("%d bytes are an index", len(head))
		}
	})
}

// Whatever surrounds a record, it is carved out whole; and what is carved out is
// a record.
func FuzzCarve(f *testing.F) {
	one, err := sealPackage(vpc, "1.0.0", cache.PackageRecord{Sum: "h1:a", Fetched: time.Unix(1, 2).UTC()})
	if err != nil {
		f.Fatal(err)
	}
	list, err := sealVersions(vpc, cache.VersionsRecord{Document: []byte("{\"modules\":[\n{\"x\":1}]}")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("before"), []byte("after"))
	f.Add(one[:len(one)-1], list)
	f.Add(list, []byte("\n{\""))
	f.Add(bytes.Repeat([]byte("0\n{\""), 99), []byte{})
	f.Fuzz(func(t *testing.T, before, after []byte) {
		whole := bytes.Join([][]byte{before, one, list, after}, nil)
		seen := map[int64]bool{}
		err := carve(bytes.NewReader(whole), int64(len(whole)), func(at carved, sealed []byte) {
			var h about
			if _, err := unseal(sealed, &h); err != nil {
				t.Errorf("at %d: %v", at.offset, err)
			}
			again, err := at.read(bytes.NewReader(whole))
			if err != nil || !bytes.Equal(again, sealed) {
				t.Errorf("at %+v: %q, %v; want %q", at, again, err, sealed)
			}
			seen[at.offset] = true
		})
		if err != nil || !seen[int64(len(before))] || !seen[int64(len(before)+len(one))] {
			t.Errorf("%v, %v", seen, err)
		}
	})
}
