package ledger

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// book is what a log durably says, in short: enough to decide about new entries, and to find the texts of the others.
type book struct {
	hashes stored        // of the tree, in tlog's order; only ever appended to
	ends   []int64       // of the header, and of each frame, in the log
	pins   map[id]uint32 // where in latest a version is
	latest []pin
	last   map[uint64]uint32          // where in latest, and one more, the last version of a module is, by its moduleHash
	before map[id][][sha256.Size]byte // the sums that versions had before, of the few that another was accepted for
	others map[id][]id                // by the address in lower case, the versions that have records in other spellings
	drifts map[id][]id                // by the version

	decisions []int64 // the numbers of their texts; only ever appended to
	bundles   map[id]bool
	subdirs   []string // those of pins, of which most are the same
	subdirAt  map[string]uint32
}

// id is the SHA-256 of a version, or of what distinguishes two observations.
type id [sha256.Size]byte

func versionID(v modproxy.Ref) id { return sha256.Sum256([]byte(v.String())) }

// ids returns the id of a version and the one that all spellings of it have in common, which is that of the spelling in lower case.
func ids(v modproxy.Ref) (version, address id) {
	version = versionID(v)
	if lower := v.Folded(); lower != v {
		return version, versionID(lower)
	}
	return version, version
}

// pin is the record that counts. Without pointers, the collector of garbage does not look at the pins of very many versions.
type pin struct {
	sum    [sha256.Size]byte
	number uint32 // memory ends long before there are as many
	subdir uint32 // where in book.subdirs it is
	before uint32 // where in latest, and one more, the version of the module is that was recorded before; zero: none
}

var moduleSeed = maphash.MakeSeed()

// moduleHash returns the key of a module in book.last. Another module may have the same.
func moduleHash(m modproxy.Address) uint64 { return maphash.Comparable(moduleSeed, m) }

type kind int

const (
	sight kind = iota // the first of a version
	acceptance
	drift
	decision
	imported
)

// entry is one text and what it means.
type entry struct {
	kind    kind
	text    []byte
	version id // or bundle
	address id // of all spellings of the version
	module  uint64
	sum     [sha256.Size]byte
	subdir  string
	drift   id    // of a drift
	end     int64 // of its frame in the log
	done    bool  // it was decided and, if it is new, written
	err     error // the result, once it is done
}

// about returns what no two entries that are written at once may be about.
func (e *entry) about() id {
	if e.address != (id{}) {
		return e.address
	}
	return e.version
}

// newBook returns a book with room for n entries: growing leaves as much behind as what has grown.
func newBook(n int64) *book {
	b := &book{
		hashes: make(stored, 0, tlog.StoredHashCount(n)), ends: make([]int64, 1, n+1), pins: make(map[id]uint32, n), latest: make([]pin, 0, n),
		last: map[uint64]uint32{}, before: map[id][][sha256.Size]byte{}, others: map[id][]id{}, drifts: map[id][]id{}, bundles: map[id]bool{}, subdirAt: map[string]uint32{},
	}
	b.ends[0] = int64(len(logHeader))
	return b
}

func (b *book) size() int64 { return int64(len(b.ends)) - 1 }

// end returns where the log ends.
func (b *book) end() int64 { return b.ends[b.size()] }

// parseEntry reads the text of an entry.
func parseEntry(text []byte) (*entry, error) {
	switch kindOf(text) {
	case decision:
		d, err := ParseDecision(text)
		return &entry{kind: decision, text: text, version: versionID(d.At(""))}, err
	case imported:
		b, err := ParseBundle(text)
		return &entry{kind: imported, text: text, version: id(b.ID)}, err
	case drift:
		d, err := ParseDrift(text)
		what := sha256.Sum256([]byte(string(d.Recorded) + "\n" + string(d.Offered) + "\n" + d.Subdir))
		version, address := ids(d.Ref)
		return &entry{kind: drift, text: text, version: version, address: address, drift: what}, err
	case sight, acceptance:
	}
	r, err := ParseRecord(text)
	version, address := ids(r.Ref)
	e := &entry{text: text, version: version, address: address, module: moduleHash(r.Address)}
	e.sum, _ = r.Sum.Hash()
	e.subdir = r.Subdir
	if r.Reason != "" {
		e.kind = acceptance
	}
	return e, err
}

// decide reports whether there is nothing to do for e, or why it is refused. The first record of a version is compared with what
// counts for its address in any spelling.
func (b *book) decide(e *entry) (known bool, err error) {
	if e.kind == sight {
		if p, _, recorded := b.counting(e.address); recorded {
			_, known = b.pinned(e.version)
			return known, b.differs(p, e)
		}
	}
	return b.decideAlone(e)
}

// decideAlone is decide as if there were one spelling of each address, as ledgers of earlier versions of modproxy are.
func (b *book) decideAlone(e *entry) (known bool, err error) {
	p, ok := b.pinned(e.version)
	switch {
	case e.kind == decision:
		return false, nil
	case e.kind == imported:
		return b.bundles[e.version], nil
	case e.kind == sight && ok:
		err = b.differs(p, e)
		return err == nil, err
	case e.kind == sight:
		return false, nil
	case !ok:
		return false, fmt.Errorf("no record of the version: %w", fs.ErrNotExist)
	case e.kind != drift:
		return b.differs(p, e) == nil, nil
	case slices.Contains(b.drifts[e.version], e.drift):
		return true, nil
	case len(b.drifts[e.version]) >= MaxDrifts:
		return false, fmt.Errorf("%w: %d observations of one version are kept already", modproxy.ErrUnavailable, MaxDrifts)
	}
	return false, nil
}

// differs returns an error unless e says what p says. A directory that is not recorded is any.
func (b *book) differs(p pin, e *entry) error {
	subdir := b.subdirs[p.subdir]
	switch {
	case p.sum != e.sum:
		return fmt.Errorf("%w: it is recorded as %s", modproxy.ErrChanged, modproxy.NewSum(p.sum))
	case subdir != "" && e.subdir != "" && subdir != e.subdir:
		return fmt.Errorf("%w: it is recorded with the directory %s", modproxy.ErrChanged, subdir)
	}
	return nil
}

// enter enters what was decided and written.
func (b *book) enter(e *entry) {
	switch e.kind {
	case decision:
		b.decisions = append(b.decisions, b.size())
	case imported:
		b.bundles[e.version] = true
	case drift:
		b.drifts[e.version] = append(b.drifts[e.version], e.drift)
	default:
		b.pin(e)
	}
	b.ends = append(b.ends, e.end)
}

// pinned returns the record of a version that counts.
func (b *book) pinned(version id) (p pin, ok bool) {
	at, ok := b.pins[version]
	if ok {
		p = b.latest[at]
	}
	return p, ok
}

// pin makes the record that is entered next the one that counts.
func (b *book) pin(e *entry) {
	subdir, known := b.subdirAt[e.subdir]
	if !known {
		subdir = uint32(len(b.subdirs))
		name := strings.Clone(e.subdir) // it is a part of a text
		b.subdirs, b.subdirAt[name] = append(b.subdirs, name), subdir
	}
	if _, known := b.pins[e.version]; !known && e.version != e.address {
		b.others[e.address] = append(b.others[e.address], e.version)
	}
	p := pin{sum: e.sum, number: uint32(b.size()), subdir: subdir}
	if at, ok := b.pins[e.version]; ok {
		b.before[e.version] = append(b.before[e.version], b.latest[at].sum)
		p.before = b.latest[at].before
		b.latest[at] = p
		return
	}
	b.pins[e.version] = uint32(len(b.latest))
	p.before = b.last[e.module]
	b.latest = append(b.latest, p)
	b.last[e.module] = uint32(len(b.latest))
}

// of returns the numbers of the records that count of the versions of a module, and perhaps of others.
func (b *book) of(module uint64) (numbers []uint32) {
	for at := b.last[module]; at != 0; at = b.latest[at-1].before {
		numbers = append(numbers, b.latest[at-1].number)
	}
	return numbers
}

// replay enters an entry of a log that is read. The error is errBroken for one that decide would not have let in.
func (b *book) replay(text []byte, end int64) error {
	e, err := parseEntry(text)
	if err == nil {
		var known bool
		if known, err = b.decideAlone(e); known { // what counts is decided when it is looked up
			err = errors.New("a record that repeats another")
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errBroken, err)
	}
	e.end = end
	b.hashes = b.hashes.grow(b.size(), e)
	b.enter(e)
	return nil
}

// stored is the hashes of a tree. Reading them does not fail.
type stored []tlog.Hash

// grow returns s with the hashes that e as record n adds. It may write behind the end of s, and nowhere else.
func (s stored) grow(n int64, e *entry) stored {
	more, _ := tlog.StoredHashes(n, e.text, s)
	return append(s, more...)
}

// root returns the tree of the first n records.
func (s stored) root(n int64) tlog.Tree {
	h, _ := tlog.TreeHash(n, s)
	return tlog.Tree{N: n, Hash: h}
}

// ReadHashes implements [tlog.HashReader] for what is in the tree.
func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		list[i] = s[at]
	}
	return list, nil
}
