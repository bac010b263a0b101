package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// An export is a line with the length of a signed head, that head, and the log that the head covers.
const (
	exportKind   = "modproxy ledger export "
	exportPrefix = exportKind + "1 "
)

// maxHead bounds a signed head, in bytes.
const maxHead = 16 << 10

// Export writes the whole log, as of now, and the signed head that proves its records and their order. Records can be
// added meanwhile.
func (l *Log) Export(w io.Writer) error {
	l.mu.RLock()
	head, size := l.head, l.tree.N
	l.mu.RUnlock()
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s%d\n%s%s", exportPrefix, len(head), head, logHeader) // Flush returns the error
	var frame []byte
	for i := range size {
		text, err := l.text(i)
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

// Import brings the log to where an export is, and returns how many records that added: all of them to an empty log,
// which then is the same tree; those that are missing to a log that is a beginning of the export; none to a log of which
// the export is a beginning. An export that has another record where the log has one is a fork; it is refused with
// [modproxy.ErrChanged]. Nothing is added unless everything is in order.
//
// The head of the export must be signed by one of trust; nil trusts the key of this log only. Errors are
// [modproxy.ErrDenied] when it is not, and [modproxy.ErrInvalid] for anything but an unchanged export.
func (l *Log) Import(ctx context.Context, r io.Reader, trust note.Verifiers) (added int64, err error) {
	if trust == nil {
		trust = note.VerifierList(l.signer.verifier)
	}
	if err := l.Failed(); err != nil {
		return 0, err
	}
	b := bufio.NewReader(r)
	tree, err := readExportHead(b, trust)
	if err != nil {
		return 0, fmt.Errorf("import: %w", importError(err))
	}
	spool, err := os.CreateTemp(l.dir, "import.*.tmp") // the next Open removes what is left
	if err != nil {
		return 0, fmt.Errorf("import: %w: %w", modproxy.ErrUnavailable, err)
	}
	defer func() { err = errors.Join(err, spool.Close(), os.Remove(spool.Name())) }()
	other, end, err := readExport(io.TeeReader(b, spool), tree)
	if err != nil {
		return 0, fmt.Errorf("import: %w", importError(err))
	}
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-l.writing }()
	if err := l.book.contradicts(other); err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	n := l.book.size()
	if other.size() <= n {
		return 0, nil
	}
	// The spool and the log are the same bytes as far as both go.
	err = l.put(io.NewSectionReader(spool, l.end, end-l.end), other.hashes, other.size(), func() { l.book = other })
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	return other.size() - n, nil
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
		return tlog.Tree{}, err
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

// readExport reads the log of an export whose head says tree. It returns where the log ends.
func readExport(r io.Reader, tree tlog.Tree) (_ *book, end int64, err error) {
	if err := readHeader(r); err != nil {
		return nil, 0, fmt.Errorf("the log: %w", err)
	}
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
			err = other.replay(text, at)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("record %d: %w", other.size(), err)
		}
	}
	if is, err := other.hashes.root(other.size()); err != nil || is != tree {
		return nil, 0, fmt.Errorf("%w: its %d records are not those that its head is about", modproxy.ErrInvalid, other.size())
	}
	return other, f.offset, nil
}

// importError returns an error of reading an export as one of those that Import has.
func importError(err error) error {
	switch {
	case errors.Is(err, modproxy.ErrInvalid), errors.Is(err, modproxy.ErrDenied):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the export is cut short", modproxy.ErrInvalid)
	case errors.Is(err, errFrame), errors.Is(err, modproxy.ErrChanged), errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %v", modproxy.ErrInvalid, err)
	}
	return fmt.Errorf("%w: %w", modproxy.ErrUnavailable, err)
}

// isFull reports whether err says that there is no room.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
