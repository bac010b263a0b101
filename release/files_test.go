package release

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/modproxy/modproxy"
)

func TestFiles(t *testing.T) {
	r := example(t)
	files, err := r.Files()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"SHA256SUMS", "SHA256SUMS.sig", "keys/00.asc", "keys/01.asc", "release.json"}
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, names) {
		t.Errorf("files %q", got)
	}
	if !bytes.Equal(files["SHA256SUMS"], r.Sums) || !bytes.Equal(files["SHA256SUMS.sig"], r.Signature) || string(files["keys/01.asc"]) != r.Keys[1].Armor {
		t.Error("bytes differ")
	}
	for _, s := range []string{`"release": 1`, `"os": "linux"`, `https://example.com/a&b%20c.zip`, `"key_id"`} {
		if !strings.Contains(string(files["release.json"]), s) {
			t.Errorf("there is no %s in %s", s, files["release.json"])
		}
	}
	back, err := Parse(files)
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v: want %+v", back, err, r)
	}
}

func TestPack(t *testing.T) {
	r := example(t)
	first, err := r.Pack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	again, err := r.Pack(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if first.Digest != again.Digest || first.Sum != again.Sum || first.Notes != "" {
		t.Errorf("%+v, then %+v", first, again)
	}
	back, err := Open(first)
	if err != nil || !reflect.DeepEqual(back, r) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := Open(strings.NewReader("x")); !errors.Is(err, modproxy.ErrInvalid) {
		t.Errorf("not a package: %v", err)
	}
}

// A release that is unsigned, has a blank line, or whose signature has expired can be stored.
func TestFilesThatClientsMayNotTake(t *testing.T) {
	for name, change := range map[string]func(*Release){
		"unsigned": func(r *Release) { r.Unsigned, r.Keys, r.Signature = true, nil, nil },
		"unsigned, with a signature": func(r *Release) {
			r.Unsigned, r.Keys = true, nil
		},
		"a blank line": func(r *Release) {
			e := newEntity(t, at(now))
			r.Sums = append(r.Sums, '\n')
			r.Signature, r.Keys = sign(t, e, r.Sums, at(now)), []Key{listed(t, e)}
		},
		"expired": func(r *Release) {
			c := at(now)
			c.SigLifetimeSecs = 1
			e := newEntity(t, at(now))
			r.Signature, r.Keys = sign(t, e, r.Sums, c), []Key{listed(t, e)}
		},
		"one platform": func(r *Release) { r.Archives = r.Archives[1:] },
	} {
		t.Run(name, func(t *testing.T) {
			r := example(t)
			change(r)
			files, err := r.Files()
			if err != nil {
				t.Fatal(err)
			}
			if back, err := Parse(files); err != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%+v, %v", back, err)
			}
		})
	}
}

func TestFilesRefused(t *testing.T) {
	for name, change := range map[string]func(*Release){
		"the zero Release":      func(r *Release) { *r = Release{} },
		"another document":      func(r *Release) { r.Sums = append(r.Sums, "# more\n"...) },
		"no keys":               func(r *Release) { r.Keys = nil },
		"keys, but unsigned":    func(r *Release) { r.Unsigned = true },
		"platforms out of turn": func(r *Release) { slices.Reverse(r.Archives) },
		"a platform twice":      func(r *Release) { r.Archives[1] = r.Archives[0] },
		"another checksum":      func(r *Release) { r.Archives[0].Digest[0]++ },
		"another file":          func(r *Release) { r.Archives[0].File = "x.zip" },
		"a URL with a query":    func(r *Release) { r.Archives[0].URL += "?token" },
		"a URL with a user":     func(r *Release) { r.Archives[0].URL = "https://me@example.com/" },
		"an odd platform":       func(r *Release) { r.Archives[0].OS = "a b" },
		"protocols":             func(r *Release) { r.Protocols = []string{"x"} },
		"packages":              func(r *Release) { delete(r.Packages, "linux_amd64") },
		"not UTF-8":             func(r *Release) { r.Keys[0].Source = "\xff" },
		"a long signature":      func(r *Release) { r.Unsigned, r.Keys, r.Signature = true, nil, make([]byte, MaxSignature+1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := example(t)
			change(r)
			if files, err := r.Files(); !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%d files, %v", len(files), err)
			}
		})
	}
}

func TestParseIsStrict(t *testing.T) {
	edit := func(old, now string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			text := strings.Replace(string(files[fileRelease]), old, now, 1)
			if text == string(files[fileRelease]) {
				t.Fatalf("there is no %s in %s", old, text)
			}
			files[fileRelease] = []byte(text)
		}
	}
	for name, change := range map[string]func(map[string][]byte){
		"another file":         func(f map[string][]byte) { f["x"] = nil },
		"an empty signature":   func(f map[string][]byte) { f[fileSignature] = nil },
		"no sums":              func(f map[string][]byte) { delete(f, fileSums) },
		"no key":               func(f map[string][]byte) { delete(f, "keys/00.asc") },
		"another key":          func(f map[string][]byte) { f["keys/02.asc"] = f["keys/01.asc"] },
		"no document":          func(f map[string][]byte) { delete(f, fileRelease) },
		"space":                func(f map[string][]byte) { f[fileRelease] = append(f[fileRelease], ' ') },
		"many files":           func(f map[string][]byte) { fill(f, maxFiles) },
		"another form":         edit(`"release": 1`, `"release": 2`),
		"an unknown field":     edit(`"release": 1`, `"x": 1, "release": 1`),
		"an armor in document": edit(`"key_id"`, `"ascii_armor": "x", "key_id"`),
		"unsigned":             edit(`"release": 1`, `"unsigned": true, "release": 1`),
	} {
		t.Run(name, func(t *testing.T) {
			files, err := example(t).Files()
			if err != nil {
				t.Fatal(err)
			}
			change(files)
			if r, err := Parse(files); !errors.Is(err, modproxy.ErrInvalid) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func fill(files map[string][]byte, n int) {
	for i := range n {
		files[fmt.Sprint(i)] = nil
	}
}

func FuzzParse(f *testing.F) {
	r := example(f)
	for _, unsigned := range []bool{false, true} {
		if unsigned {
			r.Unsigned, r.Keys = true, nil
		}
		files, err := r.Files()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(files[fileRelease], files[fileSums], files[fileSignature], files["keys/00.asc"], files["keys/01.asc"])
	}
	f.Fuzz(func(t *testing.T, document, sums, signature, first, second []byte) {
		files := map[string][]byte{fileRelease: document, fileSums: sums}
		for name, content := range map[string][]byte{fileSignature: signature, "keys/00.asc": first, "keys/01.asc": second} {
			if len(content) > 0 {
				files[name] = content
			}
		}
		r, err := Parse(files)
		if err != nil {
			if !errors.Is(err, modproxy.ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		again, err := r.Files()
		if err != nil || !maps.EqualFunc(files, again, bytes.Equal) {
			t.Fatalf("%v: %q, then %q", err, files, again)
		}
	})
}
