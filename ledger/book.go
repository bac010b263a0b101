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

// book is the index of the durable part of a log in memory: enough to decide about new entries and to find the texts of the
// others.
type book struct {
	hashes stored        // of the tree, in the order of tlog; append-only
	ends   []int64       // offsets in the log: the end of the header, then of each frame
	pins   map[id]uint32 // the index in latest of each version
	latest []pin
	last   map[uint64]uint32          // by moduleHash: the index in latest, plus one, of the last version of a module
	before map[id][][sha256.Size]byte // the superseded sums of the few versions with an accepted record
	others map[id][]id                // by the lower-case address: the versions with records in other spellings
	drifts map[id][]id                // by version

	decisions []int64 // the numbers of the decisions' texts; append-only
	bundles   map[id]bool
	subdirs   []string // the distinct subdirs of pins; most pins share one
	subdirAt  map[string]uint32
}

// id is the SHA-256 of a version, or of the fields that distinguish two observations.
type id [sha256.Size]byte

func versionID(v modproxy.Ref) id { return sha256.Sum256([]byte(v.String())) }

// ids returns the id of a version, and the id of its lower-case spelling, which all spellings share.
func ids(v modproxy.Ref) (version, address id) {
	version = versionID(v)
	if lower := v.Folded(); lower != v {
		return version, versionID(lower)
	}
	return version, version
}

// pin is the record that counts for a version. It has no pointers, so that the garbage collector skips the pins of many
// versions.
type pin struct {
	sum    [sha256.Size]byte
	number uint32 // memory runs out before this overflows
	subdir uint32 // index in book.subdirs
	before uint32 // index in latest, plus one, of the module's version that was recorded before; zero: the first
}

var moduleSeed = maphash.MakeSeed()

// moduleHash returns the key of a module in book.last. Two modules may have the same key.
func moduleHash(m modproxy.Address) uint64 { return maphash.Comparable(moduleSeed, m) }

type kind int

const (
	sight kind = iota // the first record of a version
	acceptance
	drift
	decision
	imported
)

// entry is the parsed text of one log record.
type entry struct {
	kind    kind
	text    []byte
	version id // or of a bundle
	address id // shared by all spellings of the version
	module  uint64
	sum     [sha256.Size]byte
	subdir  string
	drift   id    // only of a drift: identifies the observation
	end     int64 // offset of the end of its frame in the log
	done    bool  // decided and, if it is new, written
	err     error // the result; valid once done is true
}

// about returns the subject of e. Two entries of one write never have the same subject.
func (e *entry) about() id {
	if e.address != (id{}) {
		return e.address
	}
	return e.version
}

// newBook returns a book with capacity for n entries: growing step by step leaves as much garbage as the final size.
func newBook(n int64) *book {
	b := &book{
		hashes: make(stored, 0, tlog.StoredHashCount(n)), ends: make([]int64, 1, n+1), pins: make(map[id]uint32, n), latest: make([]pin, 0, n),
		last: map[uint64]uint32{}, before: map[id][][sha256.Size]byte{}, others: map[id][]id{}, drifts: map[id][]id{}, bundles: map[id]bool{}, subdirAt: map[string]uint32{},
	}
	b.ends[0] = int64(len(logHeader))
	return b
}

func (b *book) size() int64 { return int64(len(b.ends)) - 1 }

// end returns the offset of the end of the log.
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

// decide reports whether e is already recorded (known), and returns an error if e must be refused. The first record of a
// version is compared with the record that counts for its address in any spelling.
func (b *book) decide(e *entry) (known bool, err error) {
	if e.kind == sight {
		if p, _, recorded := b.counting(e.address); recorded {
			_, known = b.pinned(e.version)
			return known, b.differs(p, e)
		}
	}
	return b.decideAlone(e)
}

// decideAlone is decide without regard to other spellings. Ledgers of earlier versions of modproxy were written so.
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
		return false, fmt.Errorf("%w: %d observations of one version are recorded already", modproxy.ErrUnavailable, MaxDrifts)
	}
	return false, nil
}

// differs returns an error unless p and e have the same content. An unrecorded directory matches any directory.
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

// enter adds an entry that was decided and written.
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

// pinned returns the record that counts for a version.
func (b *book) pinned(version id) (p pin, ok bool) {
	at, ok := b.pins[version]
	if ok {
		p = b.latest[at]
	}
	return p, ok
}

// pin makes the record that enter adds next the one that counts.
func (b *book) pin(e *entry) {
	subdir, known := b.subdirAt[e.subdir]
	if !known {
		subdir = uint32(len(b.subdirs))
		name := strings.Clone(e.subdir) // e.subdir shares memory with the whole text
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

// of returns the record numbers of a module's versions. On a hash collision it includes those of another module.
func (b *book) of(module uint64) (numbers []uint32) {
	for at := b.last[module]; at != 0; at = b.latest[at-1].before {
		numbers = append(numbers, b.latest[at-1].number)
	}
	return numbers
}

// replay adds an entry while a log is read. The error is errBroken for an entry that decideAlone does not allow.
func (b *book) replay(text []byte, end int64) error {
	e, err := parseEntry(text)
	if err == nil {
		var known bool
		if known, err = b.decideAlone(e); known { // other spellings are compared at look-up
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

// stored contains the hashes of a tree. Reading them does not fail.
type stored []tlog.Hash

// grow returns s with the hashes that e adds as record n. It may write behind the end of s, but not before.
func (s stored) grow(n int64, e *entry) stored {
	more, _ := tlog.StoredHashes(n, e.text, s)
	return append(s, more...)
}

// root returns the tree of the first n records.
func (s stored) root(n int64) tlog.Tree {
	h, _ := tlog.TreeHash(n, s)
	return tlog.Tree{N: n, Hash: h}
}

// ReadHashes implements [tlog.HashReader] for hashes in the tree.
func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		list[i] = s[at]
	}
	return list, nil
}
