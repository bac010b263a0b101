package ledger

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// book is what a log says, in short: enough to decide about new entries, and to
// find the texts of the others. An entry enters it when it is durable.
type book struct {
	hashes []tlog.Hash // of the tree, in tlog's order; only ever appended to
	places []place     // of the texts, by their number
	pins   map[id]pin
	drifts map[id][]id // by the key of the version
}

// id is the SHA-256 of a key, or of what tells two observations apart.
type id [sha256.Size]byte

// pin is the record that counts.
type pin struct {
	number int64
	sum    [32]byte
	subdir string
}

// is tells whether e is what counts.
func (p pin) is(e *entry) bool {
	return p.sum == e.sum && (p.subdir == "" || e.subdir == "" || p.subdir == e.subdir)
}

// place is where a text is in a log.
type place struct {
	offset int64
	length int32
}

type kind int

const (
	sight kind = iota // the first of a version
	acceptance
	drift
)

// entry is one text and what it means.
type entry struct {
	kind   kind
	text   []byte
	hash   tlog.Hash // of the text, as a leaf
	key    id
	sum    [32]byte // of a record
	subdir string   // of a record
	drift  id       // of a drift
	err    error    // what became of it
}

func newBook() *book {
	return &book{pins: map[id]pin{}, drifts: map[id][]id{}}
}

func isDrift(text []byte) bool { return bytes.HasPrefix(text, []byte(driftPrefix)) }

func keyID(k module.Version) id { return sha256.Sum256([]byte(k.Path + " " + k.Version)) }

func (b *book) size() int64 { return int64(len(b.places)) }

// readEntry reads one text of a log. It looks at what it needs only: whether the
// text is in its one form is for who reads it to find out, see [ParseRecord].
func readEntry(text []byte) (*entry, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	e := &entry{text: text, hash: tlog.RecordHash(text)}
	if isDrift(text) {
		about := first[len(driftPrefix):]
		sums, _, ok := bytes.Cut(rest, []byte("\ntime "))
		if !ok || !bytes.HasPrefix(sums, []byte("recorded ")) {
			return nil, badText(text)
		}
		e.kind, e.key = drift, sha256.Sum256(about)
		e.drift = sha256.Sum256(append(append(append([]byte{}, about...), '\n'), sums...))
		return e, nil
	}
	space := bytes.LastIndexByte(first, ' ')
	if space < 0 {
		return nil, badText(text)
	}
	sum, err := parseSum(modproxy.Sum(first[space+1:]))
	if err != nil {
		return nil, badText(text)
	}
	e.key, e.sum = sha256.Sum256(first[:space]), sum
	if _, subdir, ok := bytes.Cut(rest, []byte("\nsubdir ")); ok {
		subdir, _, _ = bytes.Cut(subdir, []byte("\n"))
		e.subdir = string(subdir)
	}
	if bytes.Contains(rest, []byte("\nreason ")) {
		e.kind = acceptance
	}
	return e, nil
}

// decide tells whether there is nothing to do, and what hinders e.
func (b *book) decide(e *entry) (known bool, err error) {
	p, ok := b.pins[e.key]
	switch {
	case e.kind == sight && ok && !p.is(e) && p.sum == e.sum:
		return false, fmt.Errorf("%w: it is recorded with the directory %s", modproxy.ErrChanged, p.subdir)
	case e.kind == sight && ok && !p.is(e):
		return false, fmt.Errorf("%w: it is recorded as %s", modproxy.ErrChanged, formatSum(p.sum))
	case e.kind != sight && !ok:
		return false, fmt.Errorf("no record of the version: %w", fs.ErrNotExist)
	case e.kind != drift:
		return ok && p.is(e), nil
	}
	drifts := b.drifts[e.key]
	for _, d := range drifts {
		if d == e.drift {
			return true, nil
		}
	}
	if len(drifts) >= MaxDrifts {
		return false, fmt.Errorf("%w: %d observations of one version are kept already", modproxy.ErrUnavailable, MaxDrifts)
	}
	return false, nil
}

// enter enters what was decided and written; hashes are those of the tree with e.
func (b *book) enter(e *entry, at place, hashes []tlog.Hash) {
	if e.kind == drift {
		b.drifts[e.key] = append(b.drifts[e.key], e.drift)
	} else {
		b.pins[e.key] = pin{b.size(), e.sum, e.subdir}
	}
	b.places = append(b.places, at)
	b.hashes = hashes
}

// replay enters an entry of a log that is read, which must be one that decide
// would have let in.
func (b *book) replay(text []byte, at place) error {
	e, err := readEntry(text)
	if err != nil {
		return err
	}
	switch known, err := b.decide(e); {
	case err != nil:
		return err
	case known:
		return fmt.Errorf("%w: a record that says what another has said", modproxy.ErrInvalid)
	}
	hashes, err := grow(b.hashes, b.size(), e)
	if err != nil {
		return err
	}
	b.enter(e, at, hashes)
	return nil
}

// grow is hashes with those that e as record n adds. It may write behind the end
// of hashes, and nowhere else.
func grow(hashes []tlog.Hash, n int64, e *entry) ([]tlog.Hash, error) {
	more, err := tlog.StoredHashesForRecordHash(n, e.hash, stored(hashes))
	return append(hashes, more...), err
}

// root is the hash of the tree of the first n records.
func root(hashes []tlog.Hash, n int64) (tlog.Tree, error) {
	h, err := tlog.TreeHash(n, stored(hashes))
	return tlog.Tree{N: n, Hash: h}, err
}

// stored reads the hashes of a tree.
type stored []tlog.Hash

// ReadHashes implements [tlog.HashReader].
func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at < 0 || at >= int64(len(s)) {
			return nil, fmt.Errorf("hash %d of %d: %w", at, len(s), fs.ErrNotExist)
		}
		list[i] = s[at]
	}
	return list, nil
}
