package ledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/modproxy/modproxy"
)

// A log is a header line and frames, with nothing between them. A frame is a line with the number of the record, its length in
// bytes and its hash as a leaf of the tree, then its text, then an empty line. People can read all of it.

const (
	logHeader    = "modproxy ledger 1\n"
	maxFrameLine = 128 // bytes: two numbers and a hash
	minFrame     = 64  // bytes: the hash alone has 44 of them
)

// newer matches the first line of a log or an export in a later, unknown format version.
var newer = regexp.MustCompile(`^modproxy ledger (export )?([2-9]|[1-9][0-9]+)\b`)

var (
	errBroken  = fmt.Errorf("%w: it differs from what was written", modproxy.ErrInvalid)
	errUnknown = fmt.Errorf("%w: this modproxy does not know its form", modproxy.ErrInvalid)
	errNewer   = fmt.Errorf("%w: it was written by a newer modproxy: use that version", modproxy.ErrInvalid)
)

func appendFrame(b []byte, number int64, text []byte) []byte {
	b = fmt.Appendf(b, "%d %d %v\n", number, len(text), tlog.RecordHash(text))
	return append(append(b, text...), '\n')
}

// frames reads the frames of a log, after its header.
type frames struct {
	r     *bufio.Reader
	next  int64 // the number of the next record
	end   int64 // offset of the end of the last whole frame
	frame []byte
}

func readFrames(r io.Reader, begin int64) *frames {
	return &frames{r: bufio.NewReaderSize(r, 256<<10), end: begin}
}

// read reads one frame; the text is valid until the next call. The error is io.EOF at the end of the log, errBroken for
// anything but a whole frame, or the reader's.
func (f *frames) read() (text []byte, err error) {
	first, err := f.r.ReadSlice('\n')
	switch {
	case isEnd(err) && len(first) > 0, errors.Is(err, bufio.ErrBufferFull), len(first) > maxFrameLine:
		return nil, errBroken
	case err != nil:
		return nil, err
	}
	f.frame = append(f.frame[:0], first...)
	length, begin := 0, len(first)
	if words := bytes.Split(first, []byte(" ")); len(words) == 3 {
		length, _ = strconv.Atoi(string(words[1]))
	}
	if length <= 0 || length > maxText {
		return nil, errBroken
	}
	f.frame = slices.Grow(f.frame, length+1)[:begin+length+1]
	if _, err := io.ReadFull(f.r, f.frame[begin:]); isEnd(err) {
		return nil, errBroken
	} else if err != nil {
		return nil, err
	}
	text = f.frame[begin : begin+length]
	if !bytes.Equal(f.frame, appendFrame(make([]byte, 0, len(f.frame)), f.next, text)) {
		return nil, errBroken
	}
	f.end += int64(len(f.frame))
	f.next++
	return text, nil
}

// readHeader reads the header of a log. Errors are those of readLog.
func readHeader(r io.Reader) error {
	header := make([]byte, len(logHeader))
	if _, err := io.ReadFull(r, header); err != nil && !isEnd(err) {
		return err
	}
	switch {
	case newer.Match(header):
		return errNewer
	case string(header) != logHeader:
		return fmt.Errorf("%w: it does not begin with %q", errBroken, logHeader)
	}
	return nil
}

// readLog reads the records that a head covers. It allocates for at most most records in advance. The error is errBroken if the
// log does not match the head, or the reader's. It is errNewer if the log matches its head and has a record of unknown form: the key of
// the log has signed the record, so that it is not damage.
func readLog(r io.Reader, tree tlog.Tree, most int64) (*index, *frames, error) {
	if err := readHeader(r); err != nil {
		return nil, nil, err
	}
	var unknown error // about the first record of unknown form
	f, b := readFrames(r, int64(len(logHeader))), newIndex(min(tree.N, most))
	for b.size() < tree.N {
		text, err := f.read()
		if errors.Is(err, io.EOF) {
			return nil, nil, fmt.Errorf("%w: it has %d records, and its signed head is for %d", errBroken, b.size(), tree.N)
		}
		switch {
		case err == nil && unknown != nil:
			b.skip(text, f.end)
		case err == nil:
			err = b.replay(text, f.end)
		}
		if errors.Is(err, errUnknown) {
			unknown, err = fmt.Errorf("record %d: %w", b.size(), errNewer), nil
			b.skip(text, f.end)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("record %d, at byte %d: %w", b.size(), b.end(), err)
		}
	}
	if b.hashes.root(tree.N) != tree {
		return nil, nil, fmt.Errorf("%w: its %d records do not match its signed head", errBroken, tree.N)
	}
	if unknown != nil {
		return nil, nil, unknown
	}
	return b, f, nil
}

// isEnd reports whether err means the end of a file.
func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
