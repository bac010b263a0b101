package ledger

import (
	"fmt"
	"io/fs"
	"iter"
	"os"
	"sync"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// The files of a log, in its directory.
const (
	logName    = "log"  // the records; only ever appended to
	headName   = "head" // the signed head of the tree of all that was acknowledged
	keyName    = "key"  // what heads are signed with
	lockName   = "lock" // held by the process that has the log open
	spoolName  = "import"
	cutPrefix  = "cut-" // what a crash left behind the end of the log
	tempSuffix = ".tmp"
)

// Log is a ledger in a directory. It is safe for concurrent use.
//
// A record is flushed to the log, then a signed head that covers it is published
// in place of the one before, then the record is acknowledged. So what a head
// covers and the log does not have, or has otherwise, is damage, and is refused;
// what the log has behind its head was never acknowledged, and stays if it is
// whole.
type Log struct {
	dir    string
	sync   func(*os.File) error // (*os.File).Sync, but in tests
	signer *signer
	lock   *os.File // nil when it was opened for reading
	root   *os.File // the directory; nil when it was opened for reading
	file   *os.File

	importing sync.Mutex // held while an export is read
	commit    sync.Mutex // held while something is appended
	end       int64      // of the log, in bytes; guarded by commit

	mu     sync.RWMutex // guards what follows; what is not next is only written with commit held as well
	book   *book
	head   []byte
	tree   tlog.Tree // what head says
	failed error     // why nothing is appended any more
	next   *batch    // entries that wait for their turn; nil for none
}

// Tree is the size of the log and its hash: what the signed head says.
func (l *Log) Tree() tlog.Tree {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.tree
}

// VerifierKey is what a sumdb client needs to check the log: its name, a number
// and a public key.
func (l *Log) VerifierKey() string { return l.signer.public }

// Name is the name in the verifier key.
func (l *Log) Name() string { return l.signer.Name() }

// Lookup implements [Ledger].
func (l *Log) Lookup(m modproxy.Module, version string) (Record, error) {
	key, err := Key(m, version)
	if err != nil {
		return Record{}, err
	}
	l.mu.RLock()
	p, ok := l.book.pins[keyID(key)]
	l.mu.RUnlock()
	if !ok {
		return Record{}, &fs.PathError{Op: "lookup", Path: key.String(), Err: fs.ErrNotExist}
	}
	text, err := l.text(p.number)
	if err != nil {
		return Record{}, err
	}
	return ParseRecord(text)
}

// All implements [Ledger].
func (l *Log) All() iter.Seq2[Record, error] {
	return each(l, false, ParseRecord)
}

// Drifts implements [Ledger].
func (l *Log) Drifts() iter.Seq2[Drift, error] {
	return each(l, true, ParseDrift)
}

func each[T any](l *Log, drifts bool, parse func([]byte) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for i := range l.Tree().N {
			text, err := l.text(i)
			if err == nil && isDrift(text) != drifts {
				continue
			}
			var value T
			if err == nil {
				value, err = parse(text)
			}
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// text is the text of an entered record, as it was when it was entered.
func (l *Log) text(number int64) ([]byte, error) {
	l.mu.RLock()
	at, want := l.book.places[number], l.book.hashes[tlog.StoredHashIndex(0, number)]
	l.mu.RUnlock()
	text := make([]byte, at.length)
	if _, err := l.file.ReadAt(text, at.offset); err != nil {
		return nil, fmt.Errorf("%w: record %d: %w", modproxy.ErrUnavailable, number, err)
	}
	if tlog.RecordHash(text) != want {
		return nil, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, l.refuse("record %d is not what it was", number))
	}
	return text, nil
}
