// Package ledgertest provides a test suite for ledgers and a ledger in memory.
//
//	ledgertest.Run(t, open)      // the suite that every ledger passes
//	l := ledgertest.NewMemory()  // a ledger for tests of other packages
//
// The suite specifies the behaviour of [ledger.Ledger].
package ledgertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"sync"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/ledger"
)

// Memory is a ledger in memory. Every method scans all records.
type Memory struct {
	signer, verifier string

	mu      sync.Mutex
	fail    error
	texts   [][]byte
	records []ledger.Record // parallel to texts; the zero Record for drifts and decisions
	drifts  []ledger.Drift

	decisions []modproxy.Decision
}

// NewMemory returns an empty ledger with a new key.
func NewMemory() *Memory {
	s, v, err := note.GenerateKey(rand.Reader, "memory")
	if err != nil {
		panic(err) // no randomness is available
	}
	return &Memory{signer: s, verifier: v}
}

// Fail makes every method of [ledger.Ledger] return err until Fail(nil).
func (l *Memory) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// VerifierKey returns the key with which a client verifies the ledger.
func (l *Memory) VerifierKey() string { return l.verifier }

// Lookup implements [ledger.Ledger].
func (l *Memory) Lookup(_ context.Context, v modproxy.Ref) (ledger.Record, error) {
	if _, err := ledger.Key(v); err != nil {
		return ledger.Record{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return ledger.Record{}, l.fail
	}
	i, err := l.find(v)
	if err != nil {
		return ledger.Record{}, err
	}
	return l.records[i], nil
}

// find returns the index of the record that counts for a version: its own, or that of another spelling of its address.
func (l *Memory) find(v modproxy.Ref) (int, error) {
	for i, r := range slices.Backward(l.records) {
		if r.Ref == v {
			return i, nil
		}
	}
	found := -1
	for i, r := range l.records {
		if r.Ref.Folded() == v.Folded() && (found < 0 || r.Reason != "") {
			found = i
		}
	}
	if found >= 0 {
		return found, nil
	}
	return 0, &fs.PathError{Op: "lookup", Path: v.String(), Err: fs.ErrNotExist}
}

// Add implements [ledger.Ledger].
func (l *Memory) Add(_ context.Context, r ledger.Record) error {
	if r.Reason != "" {
		return fmt.Errorf("%w: a reason", modproxy.ErrInvalid)
	}
	return l.put(r, false)
}

// Accept implements [ledger.Ledger].
func (l *Memory) Accept(_ context.Context, r ledger.Record) error {
	if r.Reason == "" {
		return fmt.Errorf("%w: no reason", modproxy.ErrInvalid)
	}
	l.mu.Lock()
	all := map[modproxy.Ref]bool{}
	for _, known := range l.records {
		if known.Ref.Folded() == r.Ref.Folded() {
			all[known.Ref] = true
		}
	}
	l.mu.Unlock()
	if len(all) == 0 {
		return l.put(r, true)
	}
	for r.Ref = range all {
		if err := l.put(r, true); err != nil {
			return err
		}
	}
	return nil
}

func (l *Memory) put(r ledger.Record, accept bool) error {
	text, err := ledger.FormatRecord(r)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	i, err := l.find(r.Ref)
	own := err == nil && l.records[i].Ref == r.Ref
	switch {
	case err != nil && accept:
		return err
	case own && (r.Is(l.records[i].Sum, l.records[i].Subdir) || l.records[i].Is(r.Sum, r.Subdir)):
		return nil
	case err == nil && !accept && (own || !r.Is(l.records[i].Sum, l.records[i].Subdir) && !l.records[i].Is(r.Sum, r.Subdir)):
		return fmt.Errorf("%w: it is recorded as %s %s", modproxy.ErrChanged, l.records[i].Sum, l.records[i].Subdir)
	}
	r.Time = r.Time.UTC()
	l.texts, l.records = append(l.texts, text), append(l.records, r)
	return nil
}

// AddDrift implements [ledger.Ledger].
func (l *Memory) AddDrift(_ context.Context, d ledger.Drift) error {
	text, err := ledger.FormatDrift(d)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	if _, err := l.find(d.Ref); err != nil {
		return err
	}
	n := 0
	for _, known := range l.drifts {
		if known.Ref != d.Ref {
			continue
		}
		if n++; known.Recorded == d.Recorded && known.Offered == d.Offered && known.Subdir == d.Subdir {
			return nil
		}
	}
	if n >= ledger.MaxDrifts {
		return fmt.Errorf("%w: %d observations", modproxy.ErrUnavailable, n)
	}
	d.Time = d.Time.UTC()
	l.texts, l.records, l.drifts = append(l.texts, text), append(l.records, ledger.Record{}), append(l.drifts, d)
	return nil
}

// Decide implements [ledger.Ledger].
func (l *Memory) Decide(_ context.Context, d modproxy.Decision) error {
	text, err := ledger.FormatDecision(d)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return l.fail
	}
	d.Time = d.Time.UTC()
	l.texts, l.records, l.decisions = append(l.texts, text), append(l.records, ledger.Record{}), append(l.decisions, d)
	return nil
}

// Decisions implements [ledger.Ledger].
func (l *Memory) Decisions(_ context.Context, from int64) ([]modproxy.Decision, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.decisions[min(from, int64(len(l.decisions))):]), int64(len(l.decisions)), l.fail
}

// Had implements [ledger.Ledger].
func (l *Memory) Had(_ context.Context, v modproxy.Ref, sum modproxy.Sum) (bool, error) {
	if _, err := sum.Hash(); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.records, func(r ledger.Record) bool { return r.Ref.Folded() == v.Folded() && r.Sum == sum }), l.fail
}

// All implements [ledger.Ledger].
func (l *Memory) All(context.Context) iter.Seq2[ledger.Record, error] {
	return sequence(l, func() []ledger.Record {
		return slices.DeleteFunc(slices.Clone(l.records), func(r ledger.Record) bool { return r == ledger.Record{} })
	})
}

// Of implements [ledger.Ledger].
func (l *Memory) Of(_ context.Context, m modproxy.Address) iter.Seq2[ledger.Record, error] {
	return sequence(l, func() (list []ledger.Record) {
		for _, r := range l.records {
			if at := slices.IndexFunc(list, func(other ledger.Record) bool { return other.Ref == r.Ref }); at >= 0 {
				list[at] = r
			} else if r.Address == m && r.Version != "" {
				list = append(list, r)
			}
		}
		slices.Reverse(list)
		return list
	})
}

// Drifts implements [ledger.Ledger].
func (l *Memory) Drifts(context.Context) iter.Seq2[ledger.Drift, error] {
	return sequence(l, func() []ledger.Drift { return slices.Clone(l.drifts) })
}

func sequence[T any](l *Memory, list func() []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l.mu.Lock()
		values, err := list(), l.fail
		l.mu.Unlock()
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// ServerOps returns the operations with which sumdb.NewServer serves the ledger.
func (l *Memory) ServerOps() sumdb.ServerOps { return memoryOps{l} }

type memoryOps struct{ l *Memory }

func (o memoryOps) hashes() (tlog.HashReader, int64, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	all := hashes{}
	for i, text := range o.l.texts {
		more, err := tlog.StoredHashes(int64(i), text, all)
		if err != nil {
			return nil, 0, err
		}
		all = append(all, more...)
	}
	return all, int64(len(o.l.texts)), nil
}

type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var list []tlog.Hash
	for _, i := range indexes {
		if i < 0 || i >= int64(len(h)) {
			return nil, fs.ErrNotExist
		}
		list = append(list, h[i])
	}
	return list, nil
}

func (o memoryOps) Signed(context.Context) ([]byte, error) {
	h, n, err := o.hashes()
	if err != nil {
		return nil, err
	}
	root, err := tlog.TreeHash(n, h)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(o.l.signer)
	if err != nil {
		return nil, err
	}
	return note.Sign(&note.Note{Text: string(tlog.FormatTree(tlog.Tree{N: n, Hash: root}))}, signer)
}

func (o memoryOps) ReadRecords(_ context.Context, id, n int64) ([][]byte, error) {
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	if size := int64(len(o.l.texts)); id < 0 || n < 0 || id > size || n > size-id {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(o.l.texts[id : id+n]), nil
}

func (o memoryOps) Lookup(_ context.Context, k module.Version) (int64, error) {
	v, err := ledger.ParseKey(k)
	if err != nil {
		return 0, fs.ErrNotExist
	}
	o.l.mu.Lock()
	defer o.l.mu.Unlock()
	i, err := o.l.find(v)
	if err == nil && o.l.records[i].Ref != v {
		err = fs.ErrNotExist
	}
	return int64(i), err
}

func (o memoryOps) ReadTileData(_ context.Context, t tlog.Tile) ([]byte, error) {
	h, _, err := o.hashes()
	if err != nil {
		return nil, err
	}
	if t.H < 1 || t.H > 10 || t.L < 0 || t.L > 6 || t.N < 0 || t.N > 1<<32 || t.W < 1 || t.W > 1<<t.H {
		return nil, fs.ErrNotExist
	}
	return tlog.ReadTileData(t, h)
}
