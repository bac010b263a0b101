package ledger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// The files of a log, in its directory.
const (
	logName  = "log"  // the records; append-only
	headName = "head" // the signed head of the tree of all acknowledged records
	keyName  = "key"  // signs the heads
	lockName = "lock" // held by the process that has the log open
)

// Log is a ledger in a directory. It is safe for concurrent use. At most one process has it open for writing; others may read
// it.
//
// Adding a record has three steps: flush the record to the log, replace the signed head by one that covers the record,
// acknowledge. A log that lacks records that its head covers is damaged. Whole records behind the head stay.
type Log struct {
	dir     string
	disk    durable.Disk
	signer  *signer
	lock    *os.File // nil if opened for reading
	file    *os.File
	writing chan struct{} // has an element while an append is in progress

	mu      sync.RWMutex // guards the fields below; all but waiting change only while writing is held, too
	index   *index
	head    []byte
	tree    tlog.Tree // the tree of head
	failed  error     // why appending stopped; nil: it works
	waiting []*entry  // the next of their callers writes all of them
}

// Tree returns the size and the hash of the log, as in the signed head.
func (l *Log) Tree() tlog.Tree {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tree
}

// HasRecords reports whether any version has a record. Decisions are not records.
func (l *Log) HasRecords() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.index.latestAt) > 0
}

// VerifierKey returns the name, the number and the public key of the log. A sumdb client needs it to verify the log.
func (l *Log) VerifierKey() string { return l.signer.public }

// Name returns the name in the verifier key.
func (l *Log) Name() string { return l.signer.Name() }

// Lookup implements [Ledger].
func (l *Log) Lookup(ctx context.Context, v modproxy.Ref) (Record, error) {
	_, err := Key(v)
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return Record{}, err
	}
	l.mu.RLock()
	p, _, ok := l.index.current(ids(v))
	l.mu.RUnlock()
	if !ok {
		return Record{}, absent("lookup", v.String())
	}
	text, err := l.text(int64(p.number))
	if err != nil {
		return Record{}, err
	}
	return ParseRecord(text)
}

// Had implements [Ledger].
func (l *Log) Had(ctx context.Context, v modproxy.Ref, sum modproxy.Sum) (bool, error) {
	want, err := sum.Hash()
	if err := cmp.Or(err, ctx.Err()); err != nil {
		return false, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, address := ids(v)
	for _, version := range l.index.spellings(address) {
		if p, _ := l.index.latestOf(version); p.sum == want || slices.Contains(l.index.before[version], want) {
			return true, nil
		}
	}
	return false, nil
}

// All implements [Ledger].
func (l *Log) All(ctx context.Context) iter.Seq2[Record, error] {
	return each(ctx, l, firstRecord, ParseRecord)
}

// Of implements [Ledger].
func (l *Log) Of(ctx context.Context, m modproxy.Address) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		l.mu.RLock()
		numbers := l.index.of(moduleHash(m))
		l.mu.RUnlock()
		for _, number := range numbers {
			var r Record
			text, err := l.text(int64(number))
			if err = cmp.Or(ctx.Err(), err); err == nil {
				r, err = ParseRecord(text)
			}
			if err == nil && r.Address != m {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Drifts implements [Ledger].
func (l *Log) Drifts(ctx context.Context) iter.Seq2[Drift, error] {
	return func(yield func(Drift, error) bool) {
		for i := range l.Tree().N {
			var d Drift
			var is bool
			text, err := l.text(i)
			if err = cmp.Or(ctx.Err(), err); err == nil {
				switch kindOf(text) {
				case drift:
					is = true
					d, err = ParseDrift(text)
				case firstRecord:
					d, is, err = l.contradiction(i, text)
				case acceptance, decision, imported, own:
				}
			}
			if (is || err != nil) && !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func each[T any](ctx context.Context, l *Log, wanted kind, parse func([]byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range l.Tree().N {
			var value T
			text, err := l.text(i)
			if err = cmp.Or(ctx.Err(), err); err == nil {
				if kindOf(text) != wanted {
					continue
				}
				value, err = parse(text)
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// text returns the text of a record. It verifies that the text is unchanged since it was added.
func (l *Log) text(number int64) ([]byte, error) {
	l.mu.RLock()
	begin, end, want := l.index.ends[number], l.index.ends[number+1], l.index.hashes[tlog.StoredHashIndex(0, number)]
	l.mu.RUnlock()
	frame := make([]byte, end-begin)
	if _, err := l.file.ReadAt(frame, begin); err != nil {
		return nil, fmt.Errorf("%w: record %d: %w", modproxy.ErrUnavailable, number, err)
	}
	_, text, _ := bytes.Cut(frame[:len(frame)-1], []byte("\n"))
	if tlog.RecordHash(text) != want {
		return nil, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, l.damaged("record %d has changed", number))
	}
	return text, nil
}

// Failed returns the reason why the log accepts no additions, or nil if it does.
func (l *Log) Failed() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failed
}

// fail makes the log refuse all further additions.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	return err
}

// Close closes the log. It waits for a write in progress.
func (l *Log) Close() error {
	l.writing <- struct{}{}
	defer func() { <-l.writing }()
	if errors.Is(l.Failed(), fs.ErrClosed) {
		return nil
	}
	l.fail(fmt.Errorf("%w: the ledger: %w", modproxy.ErrUnavailable, fs.ErrClosed))
	var err error
	for _, f := range []*os.File{l.file, l.lock} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

// damaged returns an ErrDamaged that names the damage and the remedy.
func (l *Log) damaged(format string, args ...any) error {
	return fmt.Errorf("%s: %w: "+format+": restore a backup of the whole directory, "+
		"or move it away and import an export (modproxy ledger import) into a new one",
		append([]any{l.dir, ErrDamaged}, args...)...)
}

// Add implements [Ledger].
func (l *Log) Add(ctx context.Context, r Record) error { return l.addRecord(ctx, r, false) }

// Accept implements [Ledger].
func (l *Log) Accept(ctx context.Context, r Record) error {
	all, err := l.recorded(ctx, r.Ref)
	if err == nil && len(all) == 0 {
		return l.addRecord(ctx, r, true) // returns the error for a missing record
	}
	for _, v := range all {
		if err == nil {
			r.Ref = v
			err = l.addRecord(ctx, r, true)
		}
	}
	return err
}

func (l *Log) addRecord(ctx context.Context, r Record, accepted bool) error {
	if accepted != (r.Reason != "") {
		return fmt.Errorf("%w: an accepted record has a reason, the first of a version has none", modproxy.ErrInvalid)
	}
	text, err := FormatRecord(r)
	return l.append(ctx, text, err)
}

// AddDrift implements [Ledger].
func (l *Log) AddDrift(ctx context.Context, d Drift) error {
	text, err := FormatDrift(d)
	return l.append(ctx, text, err)
}

// append writes the text of an entry, unless err is not nil. While another caller writes, callers wait; the first of them then
// writes the entries of all of them.
func (l *Log) append(ctx context.Context, text []byte, err error) error {
	if err != nil {
		return err
	}
	e, err := parseEntry(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if known, err := l.index.decide(e); known || err != nil {
		l.mu.Unlock()
		return err
	}
	l.waiting = append(l.waiting, e)
	l.mu.Unlock()
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err() // e stays queued and may be written with the next entry
	}
	defer func() { <-l.writing }()
	for !e.done { // writeWaiting may take another entry of the same version first
		l.writeWaiting()
	}
	return e.err
}

// writeWaiting decides about the first waiting entry of each address, and about every decision. It writes the new ones with one
// flush.
func (l *Log) writeWaiting() {
	var now []*entry
	taken := map[id]bool{}
	l.mu.Lock()
	l.waiting = slices.DeleteFunc(l.waiting, func(e *entry) bool {
		if taken[e.about()] && e.kind != decision {
			return false
		}
		known, err := l.index.decide(e)
		if !known && err == nil {
			taken[e.about()] = true
			now = append(now, e)
		}
		e.done, e.err = true, err
		return true
	})
	l.mu.Unlock()
	if len(now) > 0 {
		err := l.extend(now)
		for _, e := range now {
			e.err = err
		}
	}
}

// extend writes entries durably and adds them to the index.
func (l *Log) extend(entries []*entry) error {
	var text []byte
	hashes, n := l.index.hashes, l.index.size()
	for _, e := range entries {
		text = appendFrame(text, n, e.text)
		e.end = l.index.end() + int64(len(text))
		hashes = hashes.grow(n, e)
		n++
	}
	return l.put(bytes.NewReader(text), hashes, n, func() {
		for _, e := range entries {
			l.index.enter(e)
		}
		l.index.hashes = hashes
	})
}

// put appends the bytes of r to the log, publishes the head of the resulting tree of n records, and calls enter with mu held.
// The caller holds writing.
//
// After a failed write, put removes the written part, and the caller may retry. After a failed flush the content of the disk is
// unknown: the log refuses further additions, and the next Open reads what the disk has.
func (l *Log) put(r io.Reader, hashes stored, n int64, enter func()) error {
	if err := l.Failed(); err != nil {
		return err
	}
	tree, head, err := l.signer.head(hashes, n)
	if err != nil {
		return err
	}
	end := l.index.end()
	_, err = io.Copy(io.NewOffsetWriter(l.file, end), r)
	if err == nil {
		err = l.disk.Flush(l.file)
	}
	if err == nil {
		err = l.publish(headName, bytes.NewReader(head))
	}
	if err != nil && !errors.Is(err, durable.ErrSync) {
		cut := l.file.Truncate(end)
		if cut == nil {
			return fmt.Errorf("%w: the ledger: %w", modproxy.ErrUnavailable, err)
		}
		err = errors.Join(err, cut)
	}
	if err != nil {
		return l.fail(fmt.Errorf("%w: the ledger accepts no more records until modproxy is restarted: %w", modproxy.ErrUnavailable, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	enter()
	l.tree, l.head = tree, head
	return nil
}

// publish replaces a file of the log durably.
func (l *Log) publish(name string, content io.Reader) error {
	return l.disk.WriteFile(l.path(name), func(f *os.File) error {
		_, err := io.Copy(f, content)
		return err
	})
}
