package ledger

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
	"github.com/modproxy/modproxy/internal/durable"
	"github.com/modproxy/modproxy/internal/filelock"
)

// Open opens the log in a directory. It creates both if they do not exist. The caller closes the log.
//
// After a crash, whole records behind the acknowledged ones are retained, and the rest is cut off. Any other difference from
// what was written is [ErrDamaged]: a changed byte of the records, the signed head or the key; a log that is shorter than its
// head states; a head that another key has signed; one of the three files without the others. If another process has the
// directory open, the error is [modproxy.ErrUnavailable]. If a newer modproxy has written the log, it is [modproxy.ErrInvalid].
func Open(dir string) (*Log, error) { return open(dir, durable.Disk{}) }

// OpenReadOnly opens the log in a directory for reading. It reads what a writing process has acknowledged so far. Methods that
// add something return [modproxy.ErrUnavailable]. The caller closes the log. If the directory has no log, or only the files of
// an interrupted creation, the error is [ErrNotCreated].
func OpenReadOnly(dir string) (*Log, error) {
	l := readOnly(dir)
	if err := l.load(); err != nil {
		if isNew, errNew := l.isNew(); errNew == nil && isNew {
			err = fmt.Errorf("%s: %w", dir, ErrNotCreated) // not damage, although load reports it
		}
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func readOnly(dir string) *Log {
	return &Log{dir: dir, writing: make(chan struct{}, 1), failed: fmt.Errorf("%w: the ledger was opened for reading", modproxy.ErrUnavailable)}
}

func open(dir string, disk durable.Disk) (*Log, error) {
	l := &Log{dir: dir, disk: disk, writing: make(chan struct{}, 1)}
	err := disk.MkdirAll(dir)
	if err == nil {
		l.lock, err = os.OpenFile(l.path(lockName), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err == nil {
		if err = filelock.TryLock(l.lock); err != nil {
			err = fmt.Errorf("%w: %s: another process has the ledger open: %w", modproxy.ErrUnavailable, dir, err)
		}
	}
	for _, step := range []func() error{func() error { return durable.RemoveTemps(dir, "") }, l.createIfNew, l.load} {
		if err == nil {
			err = step()
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// isNew reports whether the directory has no log, or only the files of an interrupted creation.
func (l *Log) isNew() (bool, error) {
	there := func(name string) bool {
		_, err := os.Lstat(l.path(name))
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there(logName) || there(keyName) && !there(headName) {
		return false, nil
	}
	if !there(headName) {
		return true, nil
	}
	text, err := l.read(headName)
	tree, bad := tlog.ParseTree(text)
	return err == nil && bad == nil && tree.N == 0, err
}

// createIfNew creates the files if l is new.
func (l *Log) createIfNew() error {
	if isNew, err := l.isNew(); err != nil || !isNew {
		return err
	}
	private, _, err := note.GenerateKey(rand.Reader, "modproxy")
	if err != nil {
		return err
	}
	return l.create([]byte(private + "\n"))
}

// create creates the files with the text of a key. It writes the head first and the log last. So a log that lost either file does not look
// new, and load reports the missing file.
func (l *Log) create(key []byte) (err error) {
	if l.signer, err = parseSigner(key); err != nil {
		return fmt.Errorf("%w: the key: %w", modproxy.ErrInvalid, err)
	}
	_, head, err := l.signer.head(nil, 0)
	for _, f := range []struct {
		name    string
		content []byte
	}{{headName, head}, {keyName, key}, {logName, []byte(logHeader)}} {
		if err == nil {
			err = l.publish(f.name, bytes.NewReader(f.content))
		}
	}
	return err
}

// read reads a small file that must exist.
func (l *Log) read(name string) ([]byte, error) {
	content, err := durable.ReadRegular(l.path(name), 64<<10)
	return content, l.missing(name, err)
}

func (l *Log) missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return l.damaged("the file %q is missing", name)
	}
	return err
}

// load reads the files and builds the index.
func (l *Log) load() error {
	if err := l.openFiles(); err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	var f *frames
	l.index, f, err = readLog(io.NewSectionReader(l.file, 0, 1<<62), l.tree, info.Size()/minFrame)
	switch {
	case errors.Is(err, errNewer):
		return fmt.Errorf("%s: the file %q: %w", l.dir, logName, err)
	case errors.Is(err, errBroken):
		return l.damaged("the file %q: %v", logName, err)
	case err != nil || l.lock == nil:
		return err
	}
	return l.loadRest(f)
}

// openFiles opens the log, and reads the key and the head. It reads the head before it opens the log: another process may be
// appending, and the log always has the records of any earlier head.
func (l *Log) openFiles() error {
	text, err := l.read(keyName)
	if err != nil {
		return err
	}
	if l.signer, err = parseSigner(text); err != nil {
		return l.damaged("the file %q: %w", keyName, err)
	}
	if l.head, err = l.read(headName); err != nil {
		return err
	}
	if l.tree, err = openHead(l.head, l.signer.verifier); err != nil {
		return l.damaged("the file %q is not signed by the key in the file %q: %w", headName, keyName, err)
	}
	flag := os.O_RDWR
	if l.lock == nil {
		flag = os.O_RDONLY
	}
	if l.file, err = os.OpenFile(l.path(logName), flag, 0); err != nil {
		return l.missing(logName, err)
	}
	return nil
}

// loadRest reads the whole records behind those that the head covers, cuts off the rest, and publishes all records in a new
// file. A new file is necessary because after a failed flush the records may be in memory only, and another flush would write
// nothing.
func (l *Log) loadRest(f *frames) error {
	signed := f.end
	text, err := f.read()
	for ; err == nil; text, err = f.read() {
		switch err := l.index.replay(text, f.end); {
		case errors.Is(err, errUnknown): // its hash shows that it is complete
			return fmt.Errorf("%s: the file %q: record %d: %w", l.dir, logName, f.next-1, errNewer)
		case err != nil:
			return l.damaged("record %d: %v", f.next-1, err)
		}
	}
	switch {
	case errors.Is(err, errBroken):
		err = errors.Join(l.file.Truncate(f.end), l.disk.Flush(l.file))
	case errors.Is(err, io.EOF):
		err = nil
	}
	if err != nil || l.index.size() == l.tree.N {
		return err
	}
	_, head, err := l.signer.head(l.index.hashes, l.index.size())
	if err == nil {
		err = l.publish(logName, io.NewSectionReader(l.file, 0, f.end))
	}
	if err == nil {
		err = l.publish(headName, bytes.NewReader(head))
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		if there, bad := l.read(headName); bad == nil && bytes.Equal(there, l.head) {
			err = os.Truncate(l.path(logName), signed) // give up the records that were not acknowledged
		}
	}
	if err != nil {
		return err
	}
	return errors.Join(l.file.Close(), l.load())
}

// Verify reads the directory again. If acknowledged records are missing or changed, the error is [ErrDamaged].
func (l *Log) Verify() error {
	if l.unchanged() {
		return nil
	}
	was := l.Tree() // read before the directory, which may grow meanwhile
	now, err := OpenReadOnly(l.dir)
	if errors.Is(err, ErrNotCreated) {
		return l.damaged("its files are missing")
	}
	if err != nil {
		return err
	}
	defer now.Close()
	opened, err := l.file.Stat()
	there, errThere := now.file.Stat()
	if err := errors.Join(err, errThere); err != nil {
		return err
	}
	if !os.SameFile(opened, there) || now.VerifierKey() != l.VerifierKey() || now.tree.N < was.N {
		return l.damaged("it is a different ledger, or an older copy of the open one, which has %d records", was.N)
	}
	if now.index.hashes.root(was.N) != was {
		return l.damaged("its records differ from the %d records of the open one", was.N)
	}
	return nil
}

// unchanged reports whether the directory has the same records as memory: it compares the hash of each record. It needs no
// second index in memory. If it returns false, a full comparison must decide.
func (l *Log) unchanged() bool {
	was := l.Tree()
	now := readOnly(l.dir)
	defer now.Close()
	if now.openFiles() != nil || now.VerifierKey() != l.VerifierKey() || now.tree.N < was.N {
		return false
	}
	l.mu.RLock()
	hashes, size := l.index.hashes, l.index.size()
	l.mu.RUnlock()
	opened, err := l.file.Stat()
	there, errThere := now.file.Stat()
	if err != nil || errThere != nil || !os.SameFile(opened, there) || now.tree.N > size || hashes.root(now.tree.N) != now.tree {
		return false
	}
	r := io.NewSectionReader(now.file, 0, 1<<62)
	if readHeader(r) != nil {
		return false
	}
	for f := readFrames(r, int64(len(logHeader))); f.next < now.tree.N; {
		text, err := f.read()
		if err != nil || tlog.RecordHash(text) != hashes[tlog.StoredHashIndex(0, f.next-1)] {
			return false
		}
	}
	return true
}
