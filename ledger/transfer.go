package ledger

import (
	"bufio"
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

// An export is a line with the length of a signed head, that head, and the log
// that the head covers.
const (
	exportKind   = "modproxy ledger export "
	exportPrefix = exportKind + "1 "
)

// maxHead bounds a signed head, in bytes.
const maxHead = 16 << 10

// Export writes the whole log, as of now, and the signed head that proves its
// records and their order. It does not keep others from adding.
func (l *Log) Export(w io.Writer) error {
	l.mu.RLock()
	head, size := l.head, l.tree.N
	l.mu.RUnlock()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s%d\n%s%s", exportPrefix, len(head), head, logHeader) // an error comes again
	var frame []byte
	for i := range size {
		text, err := l.text(i)
		if err != nil {
			return err
		}
		frame = appendFrame(frame[:0], i, &entry{text: text, hash: tlog.RecordHash(text)})
		if _, err := b.Write(frame); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Import brings the log to where an export is, and is how many records that
// added: all of them to an empty log, which then is the same tree; those that
// are missing to one that is a beginning of the export; none to one of which the
// export is a beginning. An export that has another record where the log has one
// is a fork; it is refused with [modproxy.ErrChanged]. Nothing is added unless
// everything is in order.
//
// The head of the export must be signed by one of trust; nil trusts the key of
// this log only. The errors are [modproxy.ErrDenied] when it is not, and
// [modproxy.ErrInvalid] for what is no export, or not what was exported.
func (l *Log) Import(r io.Reader, trust note.Verifiers) (added int64, err error) {
	if trust == nil {
		trust = note.VerifierList(l.signer.verifier)
	}
	b := bufio.NewReader(r)
	tree, err := readExportHead(b, trust)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	if err := l.Failed(); err != nil {
		return 0, err
	}
	l.importing.Lock()
	defer l.importing.Unlock()
	spool, err := os.OpenFile(l.path(spoolName+tempSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return 0, fmt.Errorf("import: %w: %w", modproxy.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	other, end, err := readExport(b, tree, spool)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	l.commit.Lock()
	defer l.commit.Unlock()
	if err := l.book.compare(other); err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	n := l.book.size()
	if other.size() <= n {
		return 0, nil
	}
	// The spool and the log are the same bytes as far as both go.
	head, err := l.put(io.NewSectionReader(spool, l.end, end-l.end), tree)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.book, l.head, l.tree = other, head, tree
	return tree.N - n, nil
}

// compare tells whether one of two books is a beginning of the other.
func (b *book) compare(other *book) error {
	for i := range min(b.size(), other.size()) {
		if at := tlog.StoredHashIndex(0, i); b.hashes[at] != other.hashes[at] {
			return fmt.Errorf("%w: record %d is another one than here: the two ledgers have forked", modproxy.ErrChanged, i)
		}
	}
	return nil
}

func readExportHead(r *bufio.Reader, trust note.Verifiers) (tlog.Tree, error) {
	first, err := r.ReadSlice('\n')
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return tlog.Tree{}, err
	}
	if isNewer(string(first), exportKind) {
		return tlog.Tree{}, errNewer
	}
	digits, ok := strings.CutPrefix(strings.TrimSuffix(string(first), "\n"), exportPrefix)
	length, err := strconv.Atoi(digits)
	if !ok || err != nil || length < 0 || length > maxHead {
		return tlog.Tree{}, fmt.Errorf("%w: this is not an export of a ledger", modproxy.ErrInvalid)
	}
	head := make([]byte, length)
	if _, err := io.ReadFull(r, head); err != nil {
		return tlog.Tree{}, cutShort(err)
	}
	tree, err := openHead(head, trust)
	var unverified *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unverified):
		return tlog.Tree{}, fmt.Errorf("%w: the export is not signed by a key that is trusted", modproxy.ErrDenied)
	case err != nil:
		return tlog.Tree{}, fmt.Errorf("%w: %w", modproxy.ErrInvalid, err)
	}
	return tree, nil
}

// readExport reads the log of an export whose head says tree, and copies it.
func readExport(r io.Reader, tree tlog.Tree, spool io.Writer) (_ *book, end int64, err error) {
	if err := readHeader(r); err != nil {
		return nil, 0, fmt.Errorf("%w: the log: %w", modproxy.ErrInvalid, err)
	}
	w := bufio.NewWriter(spool)
	w.WriteString(logHeader) // an error comes again
	f := readFrames(r, int64(len(logHeader)))
	other := newBook()
	for {
		text, at, err := f.read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && other.size() == tree.N {
			err = fmt.Errorf("%w: it has more than the %d records that its head says", modproxy.ErrInvalid, tree.N)
		}
		if err == nil {
			err = checkText(text)
		}
		if err == nil {
			err = other.replay(text, at)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("record %d: %w", other.size(), cutShort(err))
		}
		if err := f.copy(w); err != nil {
			return nil, 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
		}
	}
	if err := w.Flush(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
	}
	if is, err := root(other.hashes, other.size()); err != nil || is != tree {
		return nil, 0, fmt.Errorf("%w: its %d records are not those that its head is about", modproxy.ErrInvalid, other.size())
	}
	return other, f.offset, nil
}

// checkText tells whether a text is in its one form: what is once in a log stays.
func checkText(text []byte) (err error) {
	if isDrift(text) {
		_, err = ParseDrift(text)
	} else {
		_, err = ParseRecord(text)
	}
	return err
}

// cutShort makes what is wrong with an export an error of its own, where reading
// it did not fail.
func cutShort(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the export is cut short", modproxy.ErrInvalid)
	case errors.Is(err, errFrame), errors.Is(err, modproxy.ErrChanged):
		return fmt.Errorf("%w: %v", modproxy.ErrInvalid, err)
	}
	return err
}
