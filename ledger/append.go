package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// Add implements [Ledger].
func (l *Log) Add(r Record) error {
	if r.Reason != "" {
		return fmt.Errorf("%w: the first sight of a version has no reason", modproxy.ErrInvalid)
	}
	text, err := Text(r)
	if err != nil {
		return err
	}
	return l.append(text)
}

// Accept implements [Ledger].
func (l *Log) Accept(r Record) error {
	if r.Reason == "" {
		return fmt.Errorf("%w: there must be a reason", modproxy.ErrInvalid)
	}
	text, err := Text(r)
	if err != nil {
		return err
	}
	return l.append(text)
}

// Drift implements [Ledger].
func (l *Log) Drift(d Drift) error {
	text, err := d.Text()
	if err != nil {
		return err
	}
	return l.append(text)
}

// batch is entries that are written at once. Whoever comes first writes those of
// all who came while the batch before was written.
type batch struct {
	entries []*entry
	done    bool // guarded by Log.commit
}

func (l *Log) append(text []byte) error {
	e, err := readEntry(text)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if known, err := l.book.decide(e); known || err != nil {
		l.mu.Unlock()
		return err
	}
	if l.next == nil {
		l.next = &batch{}
	}
	b := l.next
	b.entries = append(b.entries, e)
	l.mu.Unlock()

	l.commit.Lock()
	defer l.commit.Unlock()
	if !b.done {
		l.mu.Lock()
		l.next = nil // it was b
		l.mu.Unlock()
		l.write(b.entries)
		b.done = true
	}
	return e.err
}

// write decides about entries one after the other, and writes those that are
// new. It writes at once what does not depend on each other: entries of different
// versions.
func (l *Log) write(entries []*entry) {
	for len(entries) > 0 {
		var now, later []*entry
		taken := map[id]bool{}
		for _, e := range entries {
			if taken[e.key] {
				later = append(later, e)
				continue
			}
			known, err := l.book.decide(e) // whoever changes the book holds commit
			if e.err = err; !known && err == nil {
				taken[e.key] = true
				now = append(now, e)
			}
		}
		if err := l.extend(now); err != nil {
			for _, e := range append(now, later...) {
				e.err = err
			}
			return
		}
		entries = later
	}
}

// extend writes entries, durably, and enters them into the book.
func (l *Log) extend(entries []*entry) error {
	if len(entries) == 0 {
		return nil
	}
	var text []byte
	var err error
	hashes, n := l.book.hashes, l.book.size()
	places := make([]place, len(entries))
	for i, e := range entries {
		text = appendFrame(text, n+int64(i), e)
		places[i] = place{l.end + int64(len(text)-1-len(e.text)), int32(len(e.text))}
		if hashes, err = grow(hashes, n+int64(i), e); err != nil {
			return err
		}
	}
	tree, err := root(hashes, n+int64(len(entries)))
	if err != nil {
		return err
	}
	head, err := l.put(bytes.NewReader(text), tree)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range entries {
		l.book.enter(e, places[i], hashes)
	}
	l.head, l.tree = head, tree
	return nil
}

// put writes what r gives behind the end of the log, and publishes the head of
// the tree that the log has then. It is called with commit held.
//
// What could not be written is taken back, and can be tried again. After a flush
// that failed nobody knows what is on the disk; nothing is written any more, and
// the next Open finds out.
func (l *Log) put(r io.Reader, tree tlog.Tree) (head []byte, err error) {
	if l.failed != nil {
		return nil, l.failed
	}
	if head, err = l.signer.head(tree); err != nil {
		return nil, err
	}
	n, err := io.Copy(io.NewOffsetWriter(l.file, l.end), r)
	if err != nil {
		return nil, l.takeBack(err)
	}
	if err := l.flush(l.file); err != nil {
		return nil, l.fail(err)
	}
	if flushed, err := l.publish(headName, bytes.NewReader(head)); err != nil && flushed {
		return nil, l.fail(err)
	} else if err != nil {
		return nil, l.takeBack(err)
	}
	l.end += n
	return head, nil
}

func (l *Log) takeBack(err error) error {
	if cut := l.file.Truncate(l.end); cut != nil {
		return l.fail(errors.Join(err, cut))
	}
	return fmt.Errorf("%w: the ledger: %w", modproxy.ErrUnavailable, err)
}

func (l *Log) fail(err error) error {
	err = fmt.Errorf("%w: the ledger takes nothing more until modproxy is restarted: %w", modproxy.ErrUnavailable, err)
	l.stop(err)
	return err
}

func (l *Log) stop(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
}

// Failed is why the log takes nothing more; nil when it does.
func (l *Log) Failed() error {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.failed
}
