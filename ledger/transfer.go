package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// An export is a line with the length of a signed head, that head, and the log that the head covers.
const (
	exportPrefix = "modproxy ledger export 1 "
	maxHead      = 16 << 10 // bytes
)

// Export writes the current log, and the head that proves its records and their order. It does not block additions.
func (l *Log) Export(w io.Writer) error { return l.Snapshot().Write(w) }

// Snapshot is the state of a log at one time. Additions do not change it.
type Snapshot struct {
	Tree tlog.Tree

	log   *Log
	begin string // of the export
	size  int64
}

// Snapshot returns the current state of the log.
func (l *Log) Snapshot() *Snapshot {
	l.mu.RLock()
	defer l.mu.RUnlock()
	begin := fmt.Sprintf("%s%d\n%s", exportPrefix, len(l.head), l.head)
	return &Snapshot{l.tree, l, begin, int64(len(begin)) + l.index.ends[l.tree.N]}
}

// Size returns the number of bytes that Write writes.
func (s *Snapshot) Size() int64 { return s.size }

// Write writes an export of the log in this state.
func (s *Snapshot) Write(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprint(b, s.begin, logHeader) // Flush returns the error
	var frame []byte
	for i := range s.Tree.N {
		text, err := s.log.text(i)
		if err != nil {
			return err
		}
		frame = appendFrame(frame[:0], i, text)
		if _, err := b.Write(frame); err != nil {
			return err
		}
	}
	return b.Flush()
}

// PrivateKey returns the text of the key that signs the log, for [Restore]. It is a secret.
func (l *Log) PrivateKey() ([]byte, error) {
	text, err := l.read(keyName)
	if err != nil {
		return nil, err
	}
	if s, err := parseSigner(text); err != nil || s.public != l.signer.public {
		return nil, l.damaged("the file %q is not the key of the open ledger", keyName)
	}
	return text, nil
}

// Restore creates a log in dir from the key and an export of another log, and opens it. The two logs then have the same tree and the same
// head. Errors are those of [Log.Import], and [modproxy.ErrInvalid] if dir has a log. After another error dir cannot be used.
func Restore(ctx context.Context, dir string, key []byte, export io.Reader) (*Log, error) {
	l := &Log{dir: dir}
	isNew, err := l.isNew()
	if err == nil && !isNew {
		err = fmt.Errorf("%w: %s has a ledger", modproxy.ErrInvalid, dir)
	}
	if err == nil {
		err = l.disk.MkdirAll(dir)
	}
	if err == nil {
		err = l.create(key)
	}
	if err == nil {
		l, err = Open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	if _, err = l.Import(ctx, export, l.Verifier()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Import extends the log to the state of an export, and returns the number of added records. An empty log receives all records,
// and then has the same tree. If the log is a beginning of the export, Import adds the missing records. If the export is a
// beginning of the log, Import adds nothing. If an export and the log have different records at the same position, they have
// forked, and the error is [modproxy.ErrChanged]. Import adds nothing unless the whole export is valid.
//
// A verifier in trust must have signed the head of the export; otherwise the error is [modproxy.ErrDenied]. For anything but an
// unchanged export it is [modproxy.ErrInvalid].
func (l *Log) Import(ctx context.Context, r io.Reader, trust note.Verifiers) (added int64, err error) {
	if err := l.Failed(); err != nil {
		return 0, err
	}
	spool, err := os.CreateTemp(l.dir, "import.*.tmp") // after a crash, the next Open removes it
	if err != nil {
		return 0, fmt.Errorf("import: %w: %w", modproxy.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	other, err := readExport(bufio.NewReader(r), spool, trust)
	if errors.Is(err, modproxy.ErrInvalid) || errors.Is(err, modproxy.ErrDenied) {
		return 0, fmt.Errorf("import: %w", err)
	} else if err != nil {
		return 0, fmt.Errorf("import: %w: %w", modproxy.ErrUnavailable, err)
	}
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-l.writing }()
	n := l.index.size()
	for i := range min(n, other.size()) {
		if at := tlog.StoredHashIndex(0, i); l.index.hashes[at] != other.hashes[at] {
			err := fmt.Errorf("import: %w: record %d differs from the record here: the two ledgers have forked", modproxy.ErrChanged, i)
			if !l.HasRecords() {
				err = fmt.Errorf("%w: the ledger here has no record of a version: stop modproxy, move %s away, and repeat the import before the next start", err, l.dir)
			}
			return 0, err
		}
	}
	if other.size() <= n {
		return 0, nil
	}
	// The spool and the log are identical as far as both extend.
	end := l.index.end()
	err = l.put(io.NewSectionReader(spool, end, other.end()-end), other.hashes, other.size(), func() { l.index = other })
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	return other.size() - n, nil
}

// readExport reads an export, and copies the log in it to spool.
func readExport(r *bufio.Reader, spool io.Writer, trust note.Verifiers) (*index, error) {
	first, err := r.ReadSlice('\n')
	if err != nil && !isEnd(err) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	if newer.Match(first) {
		return nil, errNewer
	}
	digits, ok := strings.CutPrefix(strings.TrimSuffix(string(first), "\n"), exportPrefix)
	length, err := strconv.Atoi(digits)
	if !ok || err != nil || length < 0 || length > maxHead {
		return nil, fmt.Errorf("%w: this is not an export of a ledger", modproxy.ErrInvalid)
	}
	head := make([]byte, length)
	if _, err := io.ReadFull(r, head); err != nil && !isEnd(err) {
		return nil, err
	}
	tree, err := openHead(head, trust)
	if errors.As(err, new(*note.UnverifiedNoteError)) {
		return nil, fmt.Errorf("%w: the export is not signed by a trusted key", modproxy.ErrDenied)
	} else if err != nil {
		return nil, fmt.Errorf("%w: the signed head: %w", modproxy.ErrInvalid, err)
	}
	other, f, err := readLog(io.TeeReader(r, spool), tree, 0)
	if err != nil {
		return nil, fmt.Errorf("the log: %w", err)
	}
	if _, err := f.r.Peek(1); err == nil {
		return nil, fmt.Errorf("%w: more data follows the %d records of its signed head", modproxy.ErrInvalid, tree.N)
	} else if !isEnd(err) {
		return nil, err
	}
	return other, nil
}
