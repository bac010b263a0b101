package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// Open opens the log in a directory, and makes both where there is nothing. The
// caller closes it. Name is that of a new log, DefaultName when it is empty;
// that of a log that is there is not changed, and another one is
// [modproxy.ErrInvalid].
//
// What a crash left behind what was acknowledged is kept if it is whole; if not,
// it is cut off, and put into a file beside the log. Anything else that is not as
// it was written is [ErrDamaged]: a byte of the records, of the signed head or of
// the key; a log that is shorter than its head says; a head that another key has
// signed; one of the three without the others. A directory that another process
// has open is [modproxy.ErrUnavailable]; a log that a newer modproxy has written is
// [modproxy.ErrInvalid].
func Open(dir, name string) (*Log, error) {
	return open(dir, name, (*os.File).Sync)
}

// OpenReadOnly opens the log in a directory for reading, also while a process has
// it open: what that had acknowledged at the time is there. Nothing is written;
// what would add something is [modproxy.ErrUnavailable]. The caller closes it.
func OpenReadOnly(dir string) (*Log, error) {
	l := &Log{dir: dir, failed: fmt.Errorf("%w: the ledger was opened for reading", modproxy.ErrUnavailable)}
	if err := l.load(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Recheck reads the directory again, whoever has added to it meanwhile, and is
// [ErrDamaged] when what was acknowledged is not there any more.
func (l *Log) Recheck() error {
	was := l.Tree()
	now, err := OpenReadOnly(l.dir)
	if err != nil {
		return err
	}
	defer now.Close()
	open, err := l.file.Stat()
	if err != nil {
		return err
	}
	there, err := now.file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(open, there) || now.VerifierKey() != l.VerifierKey() || now.tree.N < was.N {
		return l.refuse("it is another one, or an older copy, than that which is open, and has %d records", was.N)
	}
	if is, err := root(now.book.hashes, was.N); err != nil || is != was {
		return errors.Join(err, l.refuse("its records are not the %d of the one that is open", was.N))
	}
	return nil
}

func open(dir, name string, sync func(*os.File) error) (*Log, error) {
	l := &Log{dir: dir, sync: sync}
	if err := l.makeDir(dir); err != nil {
		return nil, err
	}
	err := l.takeLock()
	if err == nil {
		err = l.begin(name)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close closes the log. What is being added is added before.
func (l *Log) Close() error {
	l.commit.Lock()
	defer l.commit.Unlock()
	if errors.Is(l.Failed(), fs.ErrClosed) {
		return nil
	}
	l.stop(fmt.Errorf("%w: the ledger: %w", modproxy.ErrUnavailable, fs.ErrClosed))
	var errs []error
	for _, f := range []*os.File{l.file, l.root, l.lock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// begin does what the process that holds the lock does.
func (l *Log) begin(name string) (err error) {
	if l.root, err = os.Open(l.dir); err != nil {
		return err
	}
	if err := l.removeTemps(); err != nil {
		return err
	}
	if err := l.createIfNew(name); err != nil {
		return err
	}
	if err := l.load(); err != nil {
		return err
	}
	if name != "" && name != l.Name() {
		return fmt.Errorf("%w: %s: the ledger is called %q, not %q: clients know it by its name, which stays",
			modproxy.ErrInvalid, l.dir, l.Name(), name)
	}
	return nil
}

// createIfNew makes the files where there is nothing, or nothing but what a
// creation that was interrupted left. The head is first and the log last: without
// either, a log that has lost them is not taken for a new one.
func (l *Log) createIfNew(name string) error {
	there := map[string]bool{}
	for _, name := range []string{logName, headName, keyName} {
		switch _, err := os.Stat(l.path(name)); {
		case err == nil:
			there[name] = true
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if there[logName] || there[keyName] && !there[headName] || there[headName] && !l.headOfNothing() {
		return nil // whatever is missing, load refuses
	}
	var err error
	if there[keyName] {
		err = l.loadKey()
	} else {
		l.signer, err = newSigner(name)
	}
	if err != nil {
		return err
	}
	tree, err := root(nil, 0)
	if err != nil {
		return err
	}
	head, err := l.signer.head(tree)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name    string
		content []byte
	}{{headName, head}, {keyName, l.signer.text}, {logName, []byte(logHeader)}} {
		if _, err := l.publish(f.name, bytes.NewReader(f.content)); err != nil {
			return err
		}
	}
	return nil
}

// headOfNothing tells whether the head, whoever has signed it, says that there are
// no records.
func (l *Log) headOfNothing() bool {
	text, err := l.read(headName)
	if err != nil {
		return false
	}
	_, err = note.Open(text, note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		return false
	}
	tree, err := tlog.ParseTree([]byte(unverified.Note.Text))
	return err == nil && tree.N == 0
}

// refuse says what is wrong with the directory, and what to do.
func (l *Log) refuse(format string, args ...any) error {
	return fmt.Errorf("%s: %w: "+format+": put a backup of the whole directory back, "+
		"or move it away and import an export (modproxy ledger import) into a new one",
		append([]any{l.dir, ErrDamaged}, args...)...)
}
