package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
)

// Add implements [Ledger].
func (l *Log) Add(ctx context.Context, r Record) error { return l.addRecord(ctx, r, false) }

// Accept implements [Ledger].
func (l *Log) Accept(ctx context.Context, r Record) error { return l.addRecord(ctx, r, true) }

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

// append writes the text of a record or an observation, unless it could not be formatted. The first caller of those that
// wait while others write then writes the entries of all of them.
func (l *Log) append(ctx context.Context, text []byte, err error) error {
	var e *entry
	if err == nil {
		e, err = parseEntry(text)
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	if known, err := l.book.decide(e); known || err != nil {
		l.mu.Unlock()
		return err
	}
	l.waiting = append(l.waiting, e)
	l.mu.Unlock()
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err() // e may be written with the next one
	}
	defer func() { <-l.writing }()
	for !e.done { // another entry of the same version may be first
		l.writeWaiting()
	}
	return e.err
}

// writeWaiting decides about the waiting entries and writes those that are new, with one flush. Those that depend on
// others, because they are about the same version, go on waiting.
func (l *Log) writeWaiting() {
	l.mu.Lock()
	entries := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	var now, later []*entry
	taken := map[id]bool{}
	for _, e := range entries {
		if taken[e.version] {
			later = append(later, e)
		} else if known, err := l.book.decide(e); known || err != nil {
			e.done, e.err = true, err
		} else {
			taken[e.version] = true
			now = append(now, e)
		}
	}
	err := l.extend(now)
	for _, e := range now {
		e.done, e.err = true, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(later, l.waiting...)
}

// extend writes entries, durably, and enters them into the book.
func (l *Log) extend(entries []*entry) (err error) {
	if len(entries) == 0 {
		return nil
	}
	var text []byte
	hashes, n := l.book.hashes, l.book.size()
	places := make([]place, len(entries))
	for i, e := range entries {
		text = appendFrame(text, n+int64(i), e.text)
		places[i] = place{l.end + int64(len(text)-1-len(e.text)), int32(len(e.text))}
		if hashes, err = hashes.grow(n+int64(i), e); err != nil {
			return err
		}
	}
	return l.put(bytes.NewReader(text), hashes, n+int64(len(entries)), func() {
		for i, e := range entries {
			l.book.enter(e, places[i], hashes)
		}
	})
}

// put writes what r gives behind the end of the log, publishes the head of the tree of n records that the log has then,
// and calls enter with mu held. The caller has writing.
//
// What could not be written is taken back, and can be tried again. After a flush that failed it is not known what is on
// the disk: nothing is written any more, and the next Open reads what is there.
func (l *Log) put(r io.Reader, hashes stored, n int64, enter func()) error {
	if err := l.Failed(); err != nil {
		return err
	}
	tree, head, err := l.signer.head(hashes, n)
	if err != nil {
		return err
	}
	size, err := io.Copy(io.NewOffsetWriter(l.file, l.end), r)
	if err == nil {
		err = l.disk.Flush(l.file)
	}
	if err == nil {
		err = l.publish(headName, bytes.NewReader(head))
	}
	if err != nil && !errors.Is(err, durable.ErrSync) {
		cut := l.file.Truncate(l.end)
		if cut == nil {
			return fmt.Errorf("%w: the ledger: %w", modproxy.ErrUnavailable, err)
		}
		err = errors.Join(err, cut)
	}
	if err != nil {
		return l.fail(fmt.Errorf("%w: the ledger takes nothing more until modproxy is restarted: %w", modproxy.ErrUnavailable, err))
	}
	l.end += size
	l.mu.Lock()
	defer l.mu.Unlock()
	enter()
	l.tree, l.head = tree, head
	return nil
}

// publish replaces a file of the log, durably.
func (l *Log) publish(name string, content io.Reader) error {
	return l.disk.WriteFile(l.path(name), func(f *os.File) error {
		_, err := io.Copy(f, content)
		return err
	})
}
