package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/note"
)

// read reads a small file that must be there.
func (l *Log) read(name string) ([]byte, error) {
	f, err := os.Open(l.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, l.refuse("the file %q is missing", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 64 << 10
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(content) > most {
		return nil, l.refuse("the file %q is too long", name)
	}
	return content, err
}

func (l *Log) loadKey() error {
	text, err := l.read(keyName)
	if err != nil {
		return err
	}
	if l.signer, err = parseSigner(text); err != nil {
		return l.refuse("the file %q: %w", keyName, err)
	}
	return nil
}

// load reads everything. The head comes before the log: while a process has the
// log open, it has what any head that was there says.
func (l *Log) load() error {
	if err := l.loadKey(); err != nil {
		return err
	}
	var err error
	if l.head, err = l.read(headName); err != nil {
		return err
	}
	if l.tree, err = openHead(l.head, note.VerifierList(l.signer.verifier)); err != nil {
		return l.refuse("the file %q is not what the key in the file %q signed: %w", headName, keyName, err)
	}
	flag := os.O_RDWR
	if l.lock == nil {
		flag = os.O_RDONLY
	}
	l.file, err = os.OpenFile(l.path(logName), flag, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return l.refuse("the file %q is missing", logName)
	}
	if err != nil {
		return err
	}
	f, err := l.loadSigned()
	if err != nil || l.lock == nil {
		return err
	}
	return l.loadRest(f)
}

// loadSigned reads the records that the head covers.
func (l *Log) loadSigned() (*frames, error) {
	r := io.NewSectionReader(l.file, 0, 1<<62)
	switch err := readHeader(r); {
	case errors.Is(err, errNewer):
		return nil, fmt.Errorf("%s: the file %q: %w", l.dir, logName, err)
	case err != nil:
		return nil, l.refuse("the file %q: %w", logName, err)
	}
	f := readFrames(r, int64(len(logHeader)))
	l.book = newBook()
	for l.book.size() < l.tree.N {
		text, at, err := f.read()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, l.refuse("it has %d records and should have %d, as its signed head says", l.book.size(), l.tree.N)
		case errors.Is(err, errFrame):
			return nil, l.refuse("record %d, at byte %d: %w", f.next, f.offset, err)
		case err != nil:
			return nil, err
		}
		if err := l.book.replay(text, at); err != nil {
			return nil, l.refuse("record %d: %w", f.next-1, err)
		}
	}
	is, err := root(l.book.hashes, l.tree.N)
	if err != nil {
		return nil, err
	}
	if is != l.tree {
		return nil, l.refuse("its %d records are not those that its signed head is about", l.tree.N)
	}
	return f, nil
}

// loadRest reads what the head does not cover: it was not acknowledged.
func (l *Log) loadRest(f *frames) error {
	signed := f.offset
	for {
		text, at, err := f.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errFrame) {
			if err := l.cut(f.offset); err != nil {
				return err
			}
			break
		}
		if err != nil {
			return err
		}
		if err := l.book.replay(text, at); err != nil {
			return l.refuse("record %d: %w", f.next-1, err)
		}
	}
	l.end = f.offset
	if l.book.size() == l.tree.N {
		return nil
	}
	return l.cover(signed)
}

// cover makes what was read durable, and publishes a head for all of it. It writes
// the log anew: after a flush that failed what is read is in memory only, and
// another flush of the same file finds nothing to do. On a disk without room for
// that it gives up what is behind signed.
func (l *Log) cover(signed int64) error {
	tree, err := root(l.book.hashes, l.book.size())
	if err != nil {
		return err
	}
	head, err := l.signer.head(tree)
	if err != nil {
		return err
	}
	_, err = l.prepare(logName, io.NewSectionReader(l.file, 0, l.end))
	if err == nil {
		_, err = l.prepare(headName, bytes.NewReader(head))
	}
	if isFull(err) {
		return l.giveUp(signed)
	}
	if err != nil {
		return err
	}
	if _, err := l.install(logName); err != nil {
		return err
	}
	if err := l.file.Close(); err != nil {
		return err
	}
	if l.file, err = os.OpenFile(l.path(logName), os.O_RDWR, 0); err != nil {
		return err
	}
	_, err = l.install(headName)
	l.tree, l.head = tree, head
	return err
}

// giveUp cuts off what is behind signed, which was not acknowledged.
func (l *Log) giveUp(signed int64) error {
	if err := errors.Join(l.removeTemps(), l.file.Truncate(signed)); err != nil {
		return err
	}
	l.end = signed
	_, err := l.loadSigned()
	return err
}

// cut cuts off what is behind offset, after it has put it beside the log, if there
// is room for it.
func (l *Log) cut(offset int64) error {
	name := fmt.Sprintf("%s%d", cutPrefix, l.book.size())
	_, err := l.publish(name, io.NewSectionReader(l.file, offset, 1<<62))
	if err != nil && !isFull(err) {
		return err
	}
	if err := l.file.Truncate(offset); err != nil {
		return err
	}
	return l.flush(l.file)
}
