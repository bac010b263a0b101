package bundle_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/bundle"
	"github.com/modproxy/modproxy/test/rig"
)

// twoPackages makes a bundle of two packages.
func twoPackages(t testing.TB) (*side, []byte) {
	a := newSide(t)
	a.keep(network.At("1.0.0"), "one")
	a.keep(subnet.At("1.0.0"), "two")
	a.decide(network, modproxy.Deprecate, "", 1)
	return a, a.export(nil)
}

// read reads a whole bundle.
func read(b []byte, trust note.Verifiers) error {
	r, err := bundle.NewReader(bytes.NewReader(b), trust)
	for err == nil {
		_, err = r.Next()
	}
	return err
}

// A change or loss of any byte of a bundle is an error.
func TestEveryByte(t *testing.T) {
	a, whole := twoPackages(t)
	trust := a.trust(a)
	if err := read(whole, trust); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	refused := func(what string, at int, b []byte) {
		t.Helper()
		err := read(b, trust)
		if !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrDenied) {
			t.Fatalf("%s at byte %d of %d: %v", what, at, len(whole), err)
		}
		if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 500 {
			t.Fatalf("%s at byte %d: not a line: %q", what, at, err)
		}
		// Open reads the whole file except the packages.
		if _, err := bundle.Open(bytes.NewReader(b), int64(len(b)), trust, bundle.Releases{Unsigned: all{}}); err == nil && what != "flipped" {
			t.Fatalf("%s at byte %d: it is opened", what, at)
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
	}
	for at := 0; at < len(whole); at += step {
		refused("cut", at, whole[:at])
	}
	refused("more", len(whole), append(bytes.Clone(whole), 0))
	refused("more", len(whole), append(bytes.Clone(whole), make([]byte, 512)...))
}

// An import of a changed bundle imports only unchanged content, and an import of the whole bundle completes it.
func TestImportChanged(t *testing.T) {
	a, whole := twoPackages(t)
	want := newSide(t)
	want.wantTake(a, whole, "decided added added")
	for at := 100; at < len(whole); at += 397 {
		b := newSide(t)
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0x20
		if _, err := b.take(a, flipped); err == nil {
			t.Fatalf("byte %d: it was taken", at)
		}
		for range b.log.Bundles(t.Context()) {
			t.Fatalf("byte %d: the ledger has it", at)
		}
		b.state() // fails on content that is not intact
		if _, err := b.take(a, whole[:at]); err == nil || !strings.Contains(err.Error(), "cut off") && at >= 512 {
			t.Fatalf("cut at byte %d: %v", at, err)
		}
		if _, err := b.take(a, whole); err != nil || b.state() != want.state() {
			t.Fatalf("byte %d: then the whole: %v\n%s\nwant\n%s", at, err, b.state(), want.state())
		}
		temps(t, b.dir)
	}
}

// files splits a bundle into its files, with headers and padding.
func files(t *testing.T, b []byte) (list [][]byte) {
	r := bytes.NewReader(b)
	tr := tar.NewReader(r)
	begin := 0
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return list
		}
		must(t, err)
		end := len(b) - r.Len() + int(h.Size+511)/512*512
		list = append(list, b[begin:end])
		begin = end
	}
}

func TestForeignFiles(t *testing.T) {
	a, whole := twoPackages(t)
	is := files(t, whole)
	ending := make([]byte, 1024)
	foreign := func(h tar.Header) []byte {
		var b bytes.Buffer
		must(t, tar.NewWriter(&b).WriteHeader(&h))
		return b.Bytes()
	}
	size := int64(len(is[3]) / 512 * 512)
	for what, list := range map[string][][]byte{
		"packages in another order":    {is[0], is[1], is[4], is[5], is[2], is[3]},
		"a package before its facts":   {is[0], is[1], is[3], is[2], is[4], is[5]},
		"an index before the manifest": {is[1], is[0], is[2], is[3], is[4], is[5]},
		"a package twice":              {is[0], is[1], is[2], is[3], is[2], is[3], is[4], is[5]},
		"a package too few":            {is[0], is[1], is[2], is[3]},
		"one more":                     {is[0], is[1], is[2], is[3], is[4], is[5], is[5]},
		"two manifests":                {is[0], is[0], is[1], is[2], is[3], is[4], is[5]},
		"a path":                       {is[0], is[1], foreign(tar.Header{Name: "../../000001.json", Size: 1, Mode: 0o644}), is[2]},
		"a link":                       {is[0], is[1], foreign(tar.Header{Name: "000001.json", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), is[2]},
		"a directory":                  {is[0], is[1], foreign(tar.Header{Name: "000001/", Typeflag: tar.TypeDir}), is[2]},
		"a PAX header":                 {is[0], is[1], foreign(tar.Header{Name: "000001.json", Format: tar.FormatPAX, PAXRecords: map[string]string{"a.b": "c"}}), is[2]},
		"a huge file":                  {is[0], is[1], is[2], foreign(tar.Header{Name: "000001.tar.gz", Size: 7 << 30, Mode: 0o644}), is[3]},
		"another owner":                {is[0], is[1], is[2], foreign(tar.Header{Name: "000001.tar.gz", Size: size, Mode: 0o644, Uname: "root"}), is[3]},
		"nothing":                      {},
		"a manifest alone":             {is[0]},
	} {
		b := newSide(t)
		if _, err := b.take(a, append(bytes.Join(list, nil), ending...)); !errors.Is(err, modproxy.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A bundle counts under the key that signed it.
func TestAnotherKey(t *testing.T) {
	a, whole := twoPackages(t)
	b, other := newSide(t), newSide(t)
	before := b.state()
	_, err := b.take(other, whole)
	var untrusted *bundle.Untrusted
	if !errors.As(err, &untrusted) || !strings.HasPrefix(a.log.VerifierKey(), untrusted.Signer) || !errors.Is(err, modproxy.ErrDenied) {
		t.Errorf("signed by another: %v", err)
	}
	if _, err := states(b.importer(), t.Context(), whole); !errors.As(err, &untrusted) {
		t.Errorf("nobody is trusted: %v", err)
	}
	if b.state() != before {
		t.Error("something was taken")
	}
	// A signed tree head of the same key is not a manifest.
	var head bytes.Buffer
	must(t, a.log.Export(&head))
	signed, _, _ := bytes.Cut(head.Bytes()[bytes.IndexByte(head.Bytes(), '\n')+1:], []byte("modproxy ledger"))
	var forged bytes.Buffer
	tw := tar.NewWriter(&forged)
	tw.WriteHeader(&tar.Header{Name: "manifest", Size: int64(len(signed)), Mode: 0o644, Format: tar.FormatUSTAR})
	tw.Write(signed)
	tw.Close()
	if _, err := b.take(a, forged.Bytes()); !errors.Is(err, modproxy.ErrInvalid) || !strings.Contains(err.Error(), "not the manifest of a bundle") {
		t.Errorf("the head of a tree: %v", err)
	}
	// A bundle of another ledger cannot be continued.
	other.keep(network.At("1.0.0"), "one")
	x := bundle.Exporter{Registry: other.cache, Ledger: other.log, FirstSeen: other.firstSeen, Since: a.head(whole)}
	if err := write(t, x, io.Discard, other.kept(), nil); !errors.Is(err, modproxy.ErrChanged) {
		t.Errorf("since a bundle of another ledger: %v", err)
	}
}

// lie is the content of a bundle, which a test changes.
type lie struct {
	bundle.Manifest
	index    *bundle.Index
	facts    []*bundle.PackageEntry
	packages [][]byte
}

// forge changes a bundle and signs it again.
func forge(t testing.TB, a *side, b []byte, change func(*lie)) []byte {
	t.Helper()
	r, err := bundle.NewReader(bytes.NewReader(b), a.trust(a))
	must(t, err)
	l := &lie{Manifest: r.Manifest, index: r.Head.Index}
	for range l.index.Packages {
		e, err := r.Next()
		must(t, err)
		p, err := io.ReadAll(e)
		must(t, err)
		l.facts, l.packages = append(l.facts, &e.Facts), append(l.packages, p)
	}
	change(l)
	var texts [][]byte
	for i := range l.index.Packages {
		text, err := json.Marshal(l.facts[i])
		must(t, err)
		texts = append(texts, text)
	}
	out, err := sign(t, a, l.Manifest, l.index, texts, l.packages)
	must(t, err)
	return out
}

// sign makes a bundle of the given parts. It returns an error if they do not form one.
func sign(t testing.TB, a *side, m bundle.Manifest, index *bundle.Index, facts, packages [][]byte) ([]byte, error) {
	content := func(text []byte) bundle.Content {
		return bundle.Content{Size: int64(len(text)), Digest: sha256.Sum256(text)}
	}
	for i := range index.Packages {
		index.Packages[i].Facts, index.Packages[i].Package = content(facts[i]), content(packages[i])
	}
	var out bytes.Buffer
	w, err := bundle.NewWriter(a.log, m, index)
	if err != nil {
		return nil, err
	}
	must(t, w.Begin(&out))
	for i := range index.Packages {
		must(t, w.Add(facts[i], bytes.NewReader(packages[i])))
	}
	must(t, w.Close())
	return out.Bytes(), nil
}

// A signature does not make a false statement in a bundle true.
func TestLies(t *testing.T) {
	a, whole := twoPackages(t)
	a.keep(network.At("3.0.0"), "three")
	number, text, err := a.log.Number(network.At("3.0.0"))
	must(t, err)
	for what, change := range map[string]func(*lie){
		"a record without proof": func(l *lie) { l.facts[0].Versions[0].Proof = nil },
		"another number":         func(l *lie) { l.facts[0].Versions[0].Number++ },
		"a number of no entry":   func(l *lie) { l.facts[0].Versions[0].Number = -1 },
		"a record behind the tree": func(l *lie) {
			l.facts[0].Versions[0].Number, l.facts[0].Versions[0].Record = number, string(text)
			l.index.Packages[0].Versions[0] = bundle.Version{Ref: network.At("3.0.0")}
		},
		"a changed record": func(l *lie) {
			l.facts[0].Versions[0].Record = strings.Replace(l.facts[0].Versions[0].Record, "2025", "2024", 1)
		},
		"a record of another version": func(l *lie) { l.facts[0].Versions[0] = l.facts[1].Versions[0] },
		"facts about nothing":         func(l *lie) { l.facts[0].Versions = nil },
		"a directory elsewhere":       func(l *lie) { l.facts[0].Versions[0].Subdir = "../x" },
		"another tree":                func(l *lie) { l.Manifest.Hash[0]++ },
		"no tree":                     func(l *lie) { l.Manifest.Tree = 0 },
		"another sum":                 func(l *lie) { l.index.Packages[0].Sum = l.index.Packages[1].Sum },
		"a version twice":             func(l *lie) { l.index.Packages[0].Versions[0] = l.index.Packages[1].Versions[0] },
		"a bundle that there was not": func(l *lie) {
			l.index.Before = []bundle.Before{{Version: bundle.Version{Ref: network.At("0.1.0")}, Sum: l.index.Packages[0].Sum, Bundle: 1}}
		},
		"no decision": func(l *lie) { l.index.Decisions[0] += "x" },
	} {
		b := newSide(t)
		if got, err := b.take(a, forge(t, a, whole, change)); !errors.Is(err, modproxy.ErrInvalid) && !errors.Is(err, modproxy.ErrDenied) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		if kept := b.kept(); len(kept) > 0 && what != "another tree" {
			for _, v := range kept { // the content before the lie is imported
				if v != network.At("1.0.0") {
					t.Errorf("%s: %v is kept", what, kept)
				}
			}
		}
	}
	// A package that differs from its record is refused, and the others are imported.
	for what, change := range map[string]func(*lie){
		"another package": func(l *lie) { l.packages[0] = l.packages[1] },
		"no package":      func(l *lie) { l.packages[0] = []byte("nothing") },
	} {
		b := newSide(t)
		lie := forge(t, a, whole, change)
		b.wantTake(a, lie, "decided refused added")
		if _, err := b.log.Lookup(t.Context(), network.At("1.0.0")); err == nil {
			t.Errorf("%s: it is recorded", what)
		}
	}
	// The tree of the exporting side only grows.
	b := newSide(t)
	b.wantTake(a, whole, "decided added added")
	next := a.export(a.head(whole))
	for what, change := range map[string]func(*lie){
		"no proof":     func(l *lie) { l.Manifest.Proof = nil },
		"another hash": func(l *lie) { l.Manifest.Hash[0]++ },
		"another size": func(l *lie) { l.Manifest.Tree++ },
	} {
		lie := forge(t, a, next, change)
		if got, err := b.take(a, lie); !errors.Is(err, modproxy.ErrDenied) || got != "" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	b.wantTake(a, next, "added")
}

// FuzzReader checks that a change without a signature is rejected, and that a signed bundle of any content is read or rejected.
func FuzzReader(f *testing.F) {
	a, whole := twoPackages(f)
	trust := a.trust(a)
	r, err := bundle.NewReader(bytes.NewReader(whole), trust)
	if err != nil {
		f.Fatal(err)
	}
	index, _ := json.Marshal(r.Index)
	manifest, _ := json.Marshal(r.Manifest)
	e, err := r.Next()
	if err != nil {
		f.Fatal(err)
	}
	facts, _ := json.Marshal(e.Facts)
	f.Add(manifest, index, facts, whole)
	f.Add([]byte(`{"tree":1}`), []byte(`{"packages":[{"package":{"size":-1}}]}`), []byte("{}"), whole[:700])
	f.Fuzz(func(t *testing.T, manifest, index, facts, raw []byte) {
		if err := read(raw, trust); err == io.EOF && !bytes.Equal(raw, whole) {
			t.Fatal("a forged bundle")
		}
		var m bundle.Manifest
		var ix bundle.Index
		if json.Unmarshal(manifest, &m) != nil || json.Unmarshal(index, &ix) != nil {
			return
		}
		n := len(ix.Packages)
		signed, err := sign(t, a, m, &ix, slices.Repeat([][]byte{facts}, n), slices.Repeat([][]byte{[]byte("x")}, n))
		if err != nil {
			return
		}
		err = read(signed, trust)
		if !errors.Is(err, io.EOF) && !errors.Is(err, modproxy.ErrInvalid) {
			t.Fatalf("read: %v", err)
		}
		opened, errOpen := bundle.Open(bytes.NewReader(signed), int64(len(signed)), trust, bundle.Releases{Unsigned: all{}})
		if errOpen == nil && !errors.Is(err, io.EOF) {
			t.Fatalf("it is opened, and read: %v", err)
		}
		if errOpen == nil {
			for _, p := range opened.Index.Packages {
				for _, v := range p.Versions {
					if _, err := opened.Location(t.Context(), v.Ref); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}
