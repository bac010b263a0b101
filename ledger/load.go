package ledger

import (
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
	if err := readHeader(r); err != nil {
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
	if err := l.flush(l.file); err != nil {
		return err
	}
	return l.cover()
}

// cover publishes a head for all that the book has.
func (l *Log) cover() error {
	tree, err := root(l.book.hashes, l.book.size())
	if err != nil {
		return err
	}
	head, err := l.signer.head(tree)
	if err != nil {
		return err
	}
	_, err = l.publish(headName, head)
	l.tree, l.head = tree, head
	return err
}

// cut cuts off what is behind offset, after it has put it beside the log.
func (l *Log) cut(offset int64) error {
	cut, err := os.OpenFile(l.path(fmt.Sprintf("%s%d", cutPrefix, l.book.size())), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer cut.Close()
	if _, err := io.Copy(cut, io.NewSectionReader(l.file, offset, 1<<62)); err != nil {
		return err
	}
	if err := l.flush(cut); err != nil {
		return err
	}
	if err := l.flush(l.root); err != nil {
		return err
	}
	if err := l.file.Truncate(offset); err != nil {
		return err
	}
	return l.flush(l.file)
}
