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

// index is the index of the durable part of a log, in memory: enough to decide about new entries and to find the texts of the
// others.
type index struct {
	hashes   stored        // of the tree, in the order of tlog; append-only
	ends     []int64       // offsets in the log: the end of the header, then of each frame
	latestAt map[id]uint32 // the position in latest of each version
	latest   []latestRecord
	last     map[uint64]uint32          // by moduleHash: the position in latest, plus one, of the last version of a module
	before   map[id][][sha256.Size]byte // the superseded sums of the few versions with an accepted record
	others   map[id][]id                // by the lower-case address: the versions with records in other spellings
	drifts   map[id][]id                // by version

	decisions []int64 // the numbers of the decisions' texts; append-only
	bundles   map[id]bool
	own       string   // the last host of own modules
	subdirs   []string // the distinct subdirs of records; most records share one
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

// latestRecord is the last record of a version. It has no pointers, so that the garbage collector skips those of many versions.
type latestRecord struct {
	sum    [sha256.Size]byte
	number uint32 // memory runs out before this overflows
	subdir uint32 // position in index.subdirs
	before uint32 // position in latest, plus one, of the module's version that was recorded before; zero: the first
}

var moduleSeed = maphash.MakeSeed()

// moduleHash returns the key of a module in index.last. Two modules may have the same key.
func moduleHash(m modproxy.Address) uint64 { return maphash.Comparable(moduleSeed, m) }

type kind int

const (
	firstRecord kind = iota // the first record of a version
	acceptance
	drift
	decision
	imported
	own
)

// entry is the parsed text of one log record.
type entry struct {
	kind    kind
	text    []byte
	version id // or of a bundle, or that of all hosts of own modules
	address id // shared by all spellings of the version
	module  uint64
	sum     [sha256.Size]byte
	subdir  string
	host    string // only of own modules
	drift   id     // only of a drift: identifies the observation
	end     int64  // offset of the end of its frame in the log
	done    bool   // decided and, if it is new, written
	err     error  // the result; valid once done is true
}

// about returns the subject of e. Two entries of one write never have the same subject.
func (e *entry) about() id {
	if e.address != (id{}) {
		return e.address
	}
	return e.version
}

// newIndex returns an index with capacity for n entries: growing step by step leaves as much garbage as the final size.
func newIndex(n int64) *index {
	x := &index{
		hashes: make(stored, 0, tlog.StoredHashCount(n)), ends: make([]int64, 1, n+1), latestAt: make(map[id]uint32, n), latest: make([]latestRecord, 0, n),
		last: map[uint64]uint32{}, before: map[id][][sha256.Size]byte{}, others: map[id][]id{}, drifts: map[id][]id{}, bundles: map[id]bool{}, subdirAt: map[string]uint32{},
	}
	x.ends[0] = int64(len(logHeader))
	return x
}

func (x *index) size() int64 { return int64(len(x.ends)) - 1 }

// end returns the offset of the end of the log.
func (x *index) end() int64 { return x.ends[x.size()] }

// parseEntry reads the text of an entry.
func parseEntry(text []byte) (*entry, error) {
	switch kindOf(text) {
	case decision:
		d, err := ParseDecision(text)
		return &entry{kind: decision, text: text, version: versionID(d.At(""))}, err
	case imported:
		b, err := ParseBundle(text)
		return &entry{kind: imported, text: text, version: id(b.ID)}, err
	case own:
		o, err := ParseOwnHost(text)
		return &entry{kind: own, text: text, version: sha256.Sum256([]byte(ownPrefix)), host: o.Host}, err
	case drift:
		d, err := ParseDrift(text)
		what := sha256.Sum256([]byte(string(d.Recorded) + "\n" + string(d.Offered) + "\n" + d.Subdir))
		version, address := ids(d.Ref)
		return &entry{kind: drift, text: text, version: version, address: address, drift: what}, err
	case firstRecord, acceptance:
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
func (x *index) decide(e *entry) (known bool, err error) {
	if e.kind == firstRecord {
		if p, _, recorded := x.counting(e.address); recorded {
			_, known = x.latestOf(e.version)
			return known, x.differs(p, e)
		}
	}
	return x.decideAlone(e)
}

// decideAlone is decide without regard to other spellings. Ledgers of earlier versions of modproxy were written so.
func (x *index) decideAlone(e *entry) (known bool, err error) {
	p, ok := x.latestOf(e.version)
	switch {
	case e.kind == decision:
		return false, nil
	case e.kind == imported:
		return x.bundles[e.version], nil
	case e.kind == own:
		return x.own == e.host, nil
	case e.kind == firstRecord && ok:
		err = x.differs(p, e)
		return err == nil, err
	case e.kind == firstRecord:
		return false, nil
	case !ok:
		return false, fmt.Errorf("no record of the version: %w", fs.ErrNotExist)
	case e.kind != drift:
		return x.differs(p, e) == nil, nil
	case slices.Contains(x.drifts[e.version], e.drift):
		return true, nil
	case len(x.drifts[e.version]) >= MaxDrifts:
		return false, fmt.Errorf("%w: %d observations of one version are recorded already", modproxy.ErrUnavailable, MaxDrifts)
	}
	return false, nil
}

// differs returns an error unless p and e have the same content. An unrecorded directory matches any directory.
func (x *index) differs(p latestRecord, e *entry) error {
	subdir := x.subdirs[p.subdir]
	switch {
	case p.sum != e.sum:
		return fmt.Errorf("%w: it is recorded as %s", modproxy.ErrChanged, modproxy.NewSum(p.sum))
	case subdir != "" && e.subdir != "" && subdir != e.subdir:
		return fmt.Errorf("%w: it is recorded with the directory %s", modproxy.ErrChanged, subdir)
	}
	return nil
}

// enter adds an entry that was decided and written.
func (x *index) enter(e *entry) {
	switch e.kind {
	case decision:
		x.decisions = append(x.decisions, x.size())
	case imported:
		x.bundles[e.version] = true
	case own:
		x.own = strings.Clone(e.host) // e.host shares memory with the whole text
	case drift:
		x.drifts[e.version] = append(x.drifts[e.version], e.drift)
	default:
		x.setLatest(e)
	}
	x.ends = append(x.ends, e.end)
}

// latestOf returns the last record of a version.
func (x *index) latestOf(version id) (p latestRecord, ok bool) {
	at, ok := x.latestAt[version]
	if ok {
		p = x.latest[at]
	}
	return p, ok
}

// setLatest makes the record that enter adds next the last one of its version.
func (x *index) setLatest(e *entry) {
	subdir, known := x.subdirAt[e.subdir]
	if !known {
		subdir = uint32(len(x.subdirs))
		name := strings.Clone(e.subdir) // e.subdir shares memory with the whole text
		x.subdirs, x.subdirAt[name] = append(x.subdirs, name), subdir
	}
	if _, known := x.latestAt[e.version]; !known && e.version != e.address {
		x.others[e.address] = append(x.others[e.address], e.version)
	}
	p := latestRecord{sum: e.sum, number: uint32(x.size()), subdir: subdir}
	if at, ok := x.latestAt[e.version]; ok {
		x.before[e.version] = append(x.before[e.version], x.latest[at].sum)
		p.before = x.latest[at].before
		x.latest[at] = p
		return
	}
	x.latestAt[e.version] = uint32(len(x.latest))
	p.before = x.last[e.module]
	x.latest = append(x.latest, p)
	x.last[e.module] = uint32(len(x.latest))
}

// of returns the record numbers of a module's versions. On a hash collision it includes those of another module.
func (x *index) of(module uint64) (numbers []uint32) {
	for at := x.last[module]; at != 0; at = x.latest[at-1].before {
		numbers = append(numbers, x.latest[at-1].number)
	}
	return numbers
}

// replay adds an entry while a log is read. The error is errUnknown for a text that cannot be parsed, and errBroken for an entry that
// decideAlone does not allow.
func (x *index) replay(text []byte, end int64) error {
	e, err := parseEntry(text)
	if err != nil {
		return fmt.Errorf("%w: %v", errUnknown, err)
	}
	known, err := x.decideAlone(e)
	if known { // other spellings are compared at look-up
		err = errors.New("a record that repeats another")
	}
	if err != nil {
		return fmt.Errorf("%w: %v", errBroken, err)
	}
	e.end = end
	x.hashes = x.hashes.grow(x.size(), e)
	x.enter(e)
	return nil
}

// skip adds the hash of a text, and nothing else, so that the tree can be compared with its head.
func (x *index) skip(text []byte, end int64) {
	x.hashes = x.hashes.grow(x.size(), &entry{text: text})
	x.ends = append(x.ends, end)
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
