package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/backup"
	"github.com/modproxy/modproxy/internal/exacttar"
	"github.com/modproxy/modproxy/ledger"
	"github.com/modproxy/modproxy/store"
	"github.com/modproxy/modproxy/store/disk"
	"github.com/modproxy/modproxy/test/rig"
)

const (
	table    store.Kind = "table"
	packages store.Kind = "package"
	list     store.Kind = "list"
)

var long = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A directory is an open data directory.
type directory struct {
	backup.Source
	t       testing.TB
	dir     string
	disk    *disk.Directory
	secrets map[string]string
}

func open(t testing.TB, dir string) *directory {
	t.Helper()
	d := &directory{t: t, dir: dir, secrets: map[string]string{}}
	var err error
	d.disk, err = disk.Open(t.Context(), dir)
	must(t, err)
	d.Ledger, err = ledger.Open(filepath.Join(dir, "ledger"))
	must(t, err)
	d.Store = store.New(store.Config{Records: d.disk.Records(), Blobs: d.disk.Blobs(), Quarantine: d.disk})
	d.Tables, d.Program = []store.Kind{table}, "v1.2.3"
	d.Secret = func(name string) ([]byte, error) {
		if text, ok := d.secrets[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
	t.Cleanup(func() {
		must(t, errors.Join(d.Store.Close(context.Background()), d.Ledger.Close(), d.disk.Close()))
	})
	return d
}

func (d *directory) put(kind store.Kind, key, value string, needs ...modproxy.Digest) {
	d.t.Helper()
	_, err := d.disk.Records().Put(d.t.Context(), store.Record{Ref: store.Ref{Kind: kind, Key: key}, Value: []byte(value), Needs: needs})
	must(d.t, err)
}

// keep stores a package with a record.
func (d *directory) keep(key, content string) modproxy.Digest {
	d.t.Helper()
	digest := modproxy.Digest(sha256.Sum256([]byte(content)))
	must(d.t, d.disk.Blobs().Put(d.t.Context(), digest, strings.NewReader(content)))
	d.put(packages, key, "of "+key, digest)
	return digest
}

var network = modproxy.Address{Host: "registry.example.com", Namespace: "acme", Name: "network", System: "aws"}

func (d *directory) recordVersion(version string) {
	d.t.Helper()
	must(d.t, d.Ledger.Add(d.t.Context(), modproxy.Record{
		Ref: network.At(version), Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", Subdir: ".", Time: long, Source: modproxy.Source{URL: "https://git.example.com/x"},
	}))
}

// newDirectory returns a directory with two records in its ledger, records of three kinds, two packages and secrets.
func newDirectory(t testing.TB) *directory {
	d := open(t, t.TempDir())
	d.recordVersion("1.0.0")
	d.recordVersion("1.1.0")
	d.put(table, "a\x00\xff", "first seen")
	d.put(list, "b", "a list")
	d.keep("one", strings.Repeat("one ", 1000))
	d.keep("two", "two")
	d.secrets["auth/tokens.json"], d.secrets["auth/key"] = "tokens", "key"
	return d
}

func (d *directory) write(o backup.Options) ([]byte, backup.Summary) {
	d.t.Helper()
	var b bytes.Buffer
	summary, err := d.Write(d.t.Context(), &b, o)
	must(d.t, err)
	return b.Bytes(), summary
}

// restore restores a backup into a new directory.
func restore(t testing.TB, b []byte) (string, error) {
	r, err := backup.NewReader(bytes.NewReader(b))
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	_, err = r.Restore(t.Context(), dir)
	return dir, err
}

// state describes the content of a directory.
func (d *directory) state() string {
	d.t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "%s %v\n", d.Ledger.VerifierKey(), d.Ledger.Tree())
	for r, err := range d.disk.Records().List(d.t.Context(), "", "") {
		must(d.t, err)
		fmt.Fprintf(&s, "%s %q %q %v\n", r.Kind, r.Key, r.Value, r.Needs)
	}
	for b, err := range d.disk.Blobs().Blobs(d.t.Context()) {
		must(d.t, err)
		must(d.t, d.Store.Check(d.t.Context(), b.Digest))
		fmt.Fprintf(&s, "%v %d\n", b.Digest, b.Size)
	}
	return s.String()
}

// A restored directory has what the first one had: everything with packages, else the ledger and the tables.
func TestRestore(t *testing.T) {
	d := newDirectory(t)
	for _, with := range []bool{true, false} {
		b, summary := d.write(backup.Options{Packages: with, Found: func(d store.Damage) { t.Errorf("damage: %+v", d) }})
		dir, err := restore(t, b)
		must(t, err)
		for name, want := range d.secrets {
			text, err := os.ReadFile(filepath.Join(dir, name))
			info, _ := os.Stat(filepath.Join(dir, name))
			if err != nil || string(text) != want || info.Mode() != 0o600 {
				t.Errorf("%s: %q, %v, %v", name, text, info.Mode(), err)
			}
		}
		got, want := open(t, dir), d.state()
		counts := fmt.Sprint(summary.Entries, summary.Records, summary.Packages.Blobs)
		if !with {
			want = fmt.Sprintf("%s %v\ntable %q %q []\n", d.Ledger.VerifierKey(), d.Ledger.Tree(), "a\x00\xff", "first seen")
			if counts != "2 1 0" {
				t.Errorf("counts %s", counts)
			}
		} else if counts != "2 4 2" {
			t.Errorf("counts with packages %s", counts)
		}
		if is := got.state(); is != want {
			t.Errorf("packages %v: restored\n%s\nwant\n%s", with, is, want)
		}
		got.recordVersion("2.0.0") // the ledger continues
	}
}

// The sums in a backup are those that sha256sum checks.
func TestSums(t *testing.T) {
	b, _ := newDirectory(t).write(backup.Options{Packages: true})
	var want strings.Builder
	for r := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := r.Next()
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		if h.Name == "SHA256SUMS" {
			if string(text) != want.String() || strings.Count(want.String(), "\n") != 8 {
				t.Errorf("sums:\n%s\nwant\n%s", text, want.String())
			}
			return
		}
		sum := sha256.Sum256(text)
		fmt.Fprintf(&want, "%s  %s\n", hex.EncodeToString(sum[:]), h.Name)
	}
}

type blobs = store.Blobs

// opened calls a function when a package is opened.
type opened struct {
	blobs
	open func(modproxy.Digest)
}

func (b opened) Open(ctx context.Context, d modproxy.Digest) (store.Blob, error) {
	b.open(d)
	return b.blobs.Open(ctx, d)
}

// A backup agrees with itself although the directory changes while it is written. It lacks a package that was removed, and the record of
// that package. It has what the ledger recorded meanwhile.
func TestChangedMeanwhile(t *testing.T) {
	d := newDirectory(t)
	calls := 0
	d.Store = store.New(store.Config{Records: d.disk.Records(), Quarantine: d.disk, Blobs: opened{d.disk.Blobs(), func(digest modproxy.Digest) {
		if calls++; calls == 1 {
			d.recordVersion("3.0.0")
			_, err := d.disk.Blobs().Remove(t.Context(), store.Evict, digest)
			must(t, err)
		}
	}}})
	t.Cleanup(func() { must(t, d.Store.Close(context.Background())) })
	b, summary := d.write(backup.Options{Packages: true, Found: func(d store.Damage) { t.Errorf("damage: %+v", d) }})
	if got := fmt.Sprint(summary.Least, summary.Entries, summary.Records, summary.Packages.Blobs); got != "2 3 3 1" {
		t.Errorf("counts %s", got)
	}
	dir, err := restore(t, b)
	must(t, err)
	if n := open(t, dir).Ledger.Tree().N; n != 3 {
		t.Errorf("the ledger has %d entries", n)
	}
}

// Damaged packages and records are reported, and the rest is in the backup.
func TestDamage(t *testing.T) {
	d := newDirectory(t)
	damaged, missing := d.keep("damaged", "damaged"), d.keep("missing", "missing")
	path := func(digest modproxy.Digest) string {
		s := digest.String()
		return filepath.Join(d.dir, "blobs/v1/sha256", s[:2], s)
	}
	must(t, errors.Join(os.Chmod(path(damaged), 0o600), os.WriteFile(path(damaged), []byte("DAMAGED"), 0o600), os.Remove(path(missing))))
	found := map[string]store.DamageKind{}
	b, summary := d.write(backup.Options{Packages: true, Found: func(d store.Damage) { found[d.Ref.Key] = d.Kind }})
	if len(found) != 2 || found["damaged"] != store.DamagedBlob || found["missing"] != store.MissingBlob || summary.Records != 4 {
		t.Errorf("found %v; %d records", found, summary.Records)
	}
	_, err := restore(t, b)
	must(t, err)
}

// verifier is a [store.Codec] that finds records wrong.
type verifier map[string]error

func (v verifier) Verify(_ context.Context, r store.Record) ([]int64, error) { return nil, v[r.Key] }
func (verifier) VerifyData(context.Context, store.Record, modproxy.Digest, io.Reader) error {
	return nil
}
func (verifier) Rebuild(context.Context) (store.Rebuilder, error) { return nil, nil }

// A package that the ledger contradicts is reported and not in the backup. One whose record is superseded is.
func TestContradiction(t *testing.T) {
	d := newDirectory(t)
	d.Store.Kinds = map[store.Kind]store.Codec{packages: verifier{"one": store.ErrDamaged, "two": modproxy.ErrChanged}}
	found := map[string]store.DamageKind{}
	_, summary := d.write(backup.Options{Packages: true, Found: func(d store.Damage) { found[d.Ref.Key] = d.Kind }})
	if len(found) != 1 || found["one"] != store.WrongRecord || summary.Packages.Blobs != 1 || summary.Records != 3 {
		t.Errorf("found %v; %+v", found, summary)
	}
}

// A change or loss of any byte is an error.
func TestEveryByte(t *testing.T) {
	whole, _ := newDirectory(t).write(backup.Options{Packages: true})
	read := func(b []byte) error {
		r, err := backup.NewReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		return err
	}
	if err := read(whole); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	refused := func(what string, at int, b []byte) {
		if err := read(b); !errors.Is(err, modproxy.ErrInvalid) || strings.ContainsAny(err.Error(), "\n\x00") {
			t.Fatalf("%s at byte %d of %d: %v", what, at, len(whole), err)
		}
	}
	step := 13 // coprime to the sizes of blocks
	if rig.Long() {
		step = 1
	}
	for at := 0; at < len(whole); at += step {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 1 << (at % 8)
		refused("flipped", at, flipped)
		refused("cut", at, whole[:at])
	}
	refused("more", len(whole), append(bytes.Clone(whole), 0))
}

type file struct{ name, text string }

// archive returns a backup of any files, with right sums.
func archive(t testing.TB, files []file) []byte {
	t.Helper()
	var b bytes.Buffer
	w, sums := tar.NewWriter(&b), ""
	for _, f := range files {
		if f.name == "SHA256SUMS" {
			f.text = sums
		}
		must(t, w.WriteHeader(exacttar.Header(f.name, int64(len(f.text)))))
		_, err := io.WriteString(w, f.text)
		must(t, err)
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(f.text)), f.name)
	}
	must(t, w.Close())
	return b.Bytes()
}

// Files that do not belong to a backup, or are missing, are an error with its reason.
func TestForeign(t *testing.T) {
	d := newDirectory(t)
	whole, _ := d.write(backup.Options{Packages: true})
	var files []file
	for r := tar.NewReader(bytes.NewReader(whole)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		text, _ := io.ReadAll(r)
		files = append(files, file{h.Name, string(text)})
	}
	if _, err := restore(t, archive(t, files)); err != nil {
		t.Fatalf("the same files: %v", err)
	}
	change := func(name string, how func(f file) []file) (list []file) {
		for _, f := range files {
			if f.name == name {
				list = append(list, how(f)...)
			} else {
				list = append(list, f)
			}
		}
		return list
	}
	without := func(name string) []file { return change(name, func(file) []file { return nil }) }
	replaced := func(name, old, by string) []file {
		return change(name, func(f file) []file { return []file{{name, strings.Replace(f.text, old, by, 1)}} })
	}
	other, _ := newDirectory(t).Ledger.PrivateKey()
	for what, c := range map[string]struct {
		files []file
		want  string
	}{
		"a later format":                {replaced("manifest", "backup 1\n", "backup 2\n"), "has format 2, and this modproxy reads formats up to 1: restore it with modproxy v1.2.3, which wrote it, or with a newer version"},
		"a later format, by hand":       {[]file{{"manifest", "modproxy backup 77\n"}}, "with a newer modproxy, which wrote it"},
		"another manifest":              {[]file{{"manifest", "modproxy bundle 1\n{}\n"}}, "this is not a backup"},
		"a manifest with more":          {replaced("manifest", `{"program"`, `{"more":1,"program"`), "manifest of the backup was changed"},
		"no manifest":                   {without("manifest"), "this is not a backup: it does not begin with a manifest"},
		"no ledger":                     {without("ledger/export"), "has no ledger"},
		"no key":                        {without("ledger/key"), `has no file "ledger/export"`},
		"the key of another ledger":     {change("ledger/key", func(file) []file { return []file{{"ledger/key", string(other)}} }), "not signed by a trusted key"},
		"an older ledger than promised": {replaced("manifest", `"least":2`, `"least":3`), "has 2 entries, but the manifest has 3"},
		"no sums":                       {without("SHA256SUMS"), "ends without its file SHA256SUMS"},
		"a path":                        {change("auth/key", func(f file) []file { return []file{{"auth/../../key", f.text}} }), `has no file "auth/../../key"`},
		"an absolute path":              {change("auth/key", func(f file) []file { return []file{{"/etc/passwd", f.text}} }), `has no file "/etc/passwd"`},
		"a package of another name":     {change("auth/key", func(f file) []file { return []file{{"packages/" + strings.Repeat("0", 64), f.text}} }), "was changed"},
		"records twice":                 {change("records/000001.json", func(f file) []file { return []file{f, {"records/000002.json", f.text}} }), "the record has changed"},
		"no packages":                   {files[:1:1], "cut off"},
	} {
		b := archive(t, c.files)
		if what == "no packages" {
			b = b[:1024]
		}
		if _, err := restore(t, b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", what, err, c.want)
		}
	}
}

// FuzzReader: any bytes result in the end of a backup with right sums, or in an error of one line.
func FuzzReader(f *testing.F) {
	manifest := file{"manifest", "modproxy backup 1\n" + `{"program":"v1","created":"2026-01-02T03:04:05Z","key":"k","least":0}` + "\n"}
	misnamed := file{"packages/" + hex.EncodeToString(make([]byte, 32)), "x"}
	f.Add(archive(f, []file{manifest, {"records/000001.json", "{}\n"}, {"SHA256SUMS", ""}}))
	f.Add(archive(f, []file{manifest, misnamed, {"SHA256SUMS", ""}}))
	f.Add([]byte("manifest"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := backup.NewReader(bytes.NewReader(b))
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) && (!errors.Is(err, modproxy.ErrInvalid) || strings.ContainsAny(err.Error(), "\n\x00")) {
			t.Errorf("%q", err)
		}
	})
}
